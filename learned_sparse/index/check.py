"""Sampled documents of an index beside the vector files: every posting, seen from both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from learned_sparse.index.vectors import VectorFiles, sampled_vectors
from learned_sparse.lucene import postings_of, read_contents

Vectors = Mapping[str, Mapping[str, int]]
SHOWN = 10
"""Differences in a report."""


@dataclass(frozen=True)
class Check:
    """What a comparison found."""

    documents: int
    """Compared."""
    postings: int
    """Of these documents in the files."""
    differences: tuple[str, ...]

    @property
    def status(self) -> int:
        """The exit status of the command: 0, or 2 where anything differs."""
        return 2 if self.differences else 0

    def report(self) -> str:
        """For people, a line for each of the first differences."""
        head = f"{self.documents:,} documents, {self.postings:,} postings compared: "
        if not self.differences:
            return f"{head}the index holds them all, with these impacts, and no others"
        more = [f"... and {len(self.differences) - SHOWN:,} more"] if len(self.differences) > SHOWN else []
        return "\n  ".join([f"{head}{len(self.differences):,} differences", *self.differences[:SHOWN], *more])


def check_index(vectors: VectorFiles, index: Path, sample: int) -> Check:
    """Compare totals, and all postings of ``sample`` documents drawn from all files (the same ones each time).

    What ``index_vectors.verify`` does when an index is made asks for the terms in the files alone; this one also sees
    postings that are in the index only. It takes one pass over all terms of the index.
    """
    contents = read_contents(index)
    totals = {
        "documents": (sum(vectors.documents), contents.documents),
        "distinct ids": (sum(vectors.documents), contents.distinct_ids),
        "postings": (vectors.postings, contents.postings),
    }
    wrong = [
        f"{what}: {expected:,} in the files, {found:,} in the index"
        for what, (expected, found) in totals.items()
        if expected != found
    ]
    expected = sampled_vectors(vectors, sample)
    wrong += compare(expected, postings_of(index, expected))
    return Check(len(expected), sum(map(len, expected.values())), tuple(wrong))


def compare(expected: Vectors, found: Vectors) -> Iterator[str]:
    """A line for each impact of the documents ``expected`` that is not as found.

    >>> list(compare({"d1": {"hives": 3, "itch": 1}, "d2": {}}, {"d1": {"hives": 2, "itch": 1, "rash": 7}}))
    ["'d1': 'hives': 3 in the file, 2 in the index", "'d1': 'rash': only in the index (7)", "'d2': not in the index"]
    """
    for name, vector in expected.items():
        if name not in found:
            yield f"{name!r}: not in the index"
            continue
        there = found[name]
        for term, impact in vector.items():
            if term not in there:
                yield f"{name!r}: {term!r}: only in the file ({impact})"
            elif there[term] != impact:
                yield f"{name!r}: {term!r}: {impact} in the file, {there[term]} in the index"
        for term in sorted(there.keys() - vector.keys()):
            yield f"{name!r}: {term!r}: only in the index ({there[term]})"
