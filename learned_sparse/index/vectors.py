"""The vector files of an index, and the comparison of the index with them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError, progress_bar
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest, load_manifests
from learned_sparse.jsonvector.reader import LineReader, numbered_lines, read_vectors, vector_files
from learned_sparse.lucene.reader import IndexContents, postings_of, read_contents

Vectors = Mapping[str, Mapping[str, int]]
"""``{document id: {term: impact}}``."""


@dataclass(frozen=True)
class VectorFiles:
    """Vector files, and the counts that an index of them must have."""

    files: tuple[Path, ...]
    documents: int
    postings: int
    """Number of postings; an empty vector is written as one reserved term and counts one."""
    manifests: tuple[Manifest, ...] = ()
    scoring: str = "impact"


def open_vectors(vectors: VectorFiles | str | Path | Sequence[Path]) -> VectorFiles:
    """``encoded_files`` if the folders (or the one folder) have manifests, else ``plain_files``."""
    if isinstance(vectors, VectorFiles):
        return vectors
    folders = [Path(vectors)] if isinstance(vectors, (str, Path)) else list(vectors)
    return encoded_files(folders) if any((folder / MANIFEST).is_file() for folder in folders) else plain_files(folders)


def encoded_files(folders: Sequence[Path]) -> VectorFiles:
    """The files of folders written by learned_sparse.encode: one folder, or all shards of one collection.

    ``LearnedSparseError``: a file differs from its manifest, or the shards were encoded with different settings.
    """
    manifests = load_manifests(folders)
    parts = [(folder, part) for folder, m in zip(folders, manifests, strict=True) for part in m.parts]
    return VectorFiles(
        files=tuple(folder / part.file for folder, part in parts),
        documents=sum(part.documents for _, part in parts),
        postings=sum(m.counts.postings + m.counts.empty_vectors for m in manifests),
        manifests=tuple(manifests),
        scoring=manifests[0].scoring,
    )


def plain_files(folders: Sequence[Path]) -> VectorFiles:
    """Vector files without a manifest, from other tools; every line is read and checked."""
    files = [file for folder in folders for file in vector_files(folder)]
    shown = progress_bar(files, "reading", "files")
    counts = [len(vector) or 1 for file in shown for _, vector in read_vectors(file)]
    return VectorFiles(tuple(files), len(counts), sum(counts))


def differing_totals(vectors: VectorFiles, contents: IndexContents, total_impacts: int | None = None) -> list[str]:
    """A line for each count of an index that is not that of its files; ``total_impacts`` is the sum in the files."""
    totals = {
        "documents": (vectors.documents, contents.documents),
        "distinct ids": (vectors.documents, contents.distinct_ids),
        "postings": (vectors.postings, contents.postings),
        "sum of impacts": (contents.total_impacts if total_impacts is None else total_impacts, contents.total_impacts),
    }
    return [
        f"{what}: {in_files:,} in the files, {in_index:,} in the index"
        for what, (in_files, in_index) in totals.items()
        if in_files != in_index
    ]


def check_index(vectors: VectorFiles, index: Path, sample: int) -> tuple[str, list[str]]:
    """Compare the totals, and all postings of ``sample`` random documents of all files; the same ones each time.

    Returns a sentence about what was compared, and a line for each difference. Takes one pass over all terms of the
    index, so that postings that are only in the index are found too.
    """
    expected = _sampled_vectors(vectors, sample)
    wrong = [*differing_totals(vectors, read_contents(index)), *compare(expected, postings_of(index, expected))]
    compared = f"{len(expected):,} documents, {sum(map(len, expected.values())):,} postings compared"
    return f"{compared}: {len(wrong):,} differences", wrong


def compare(expected: Vectors, indexed: Vectors) -> Iterator[str]:
    """A line for each difference between the documents ``expected`` and their postings in an index.

    >>> list(compare({"d1": {"hives": 3, "itch": 1}, "d2": {}}, {"d1": {"hives": 2, "itch": 1, "rash": 7}}))
    ["'d1': 'hives': 3 in the files, 2 in the index", "'d1': 'rash': only in the index (7)", "'d2': not in the index"]
    """
    for name, vector in expected.items():
        if name not in indexed:
            yield f"{name!r}: not in the index"
            continue
        postings = indexed[name]
        for term, impact in vector.items():
            if term not in postings:
                yield f"{name!r}: {term!r}: only in the files ({impact})"
            elif postings[term] != impact:
                yield f"{name!r}: {term!r}: {impact} in the files, {postings[term]} in the index"
        for term in sorted(postings.keys() - vector.keys()):
            yield f"{name!r}: {term!r}: only in the index ({postings[term]})"


def _sampled_vectors(vectors: VectorFiles, sample: int) -> dict[str, dict[str, int]]:
    """The vectors of ``sample`` documents (or of all, if there are fewer) as an index must hold them."""
    count = vectors.documents
    chosen = set(random.Random(0).sample(range(count), min(sample, count)))  # noqa: S311  (no cryptography)
    lines = ((file, *numbered) for file in vectors.files for numbered in numbered_lines(file))
    reader, sampled = LineReader(), dict[str, dict[str, int]]()
    for document, (file, number, line) in enumerate(lines):
        if document in chosen:
            try:
                name, vector = reader.parse(line)
            except ValueError as error:
                raise LearnedSparseError(f"{file}:{number}: {error}") from None
            sampled[name] = vector or {EMPTY_TERM: 1}
    return sampled
