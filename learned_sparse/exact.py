"""An exact in-memory searcher: the oracle for Lucene, and a stand-in where there is no Java."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from learned_sparse.errors import LearnedSparseError
from learned_sparse.jsonvector import read_vectors
from learned_sparse.lucene_terms import RESERVED
from learned_sparse.records import SparseBatch

Hits = list[tuple[str, int]]
"""``(document id, score)``, best first."""


class ExactSearcher:
    """All postings in memory, term by term; a score is the dot product of integers, computed in int64.

    >>> documents = [("d1", {"hives": 3}), ("d2", {"hives": 1, "itch": 2}), ("d3", {})]
    >>> ExactSearcher.from_vectors(documents).search({"hives": 1, "itch": 1})
    [('d1', 3), ('d2', 3)]
    """

    def __init__(self, ids: Sequence[str], impacts: SparseBatch) -> None:
        """``impacts`` has one row of positive integers for each of ``ids``."""
        if len(ids) != len(impacts):
            raise ValueError(f"{len(ids)} ids for {len(impacts)} vectors")
        self.ids = list(ids)
        # Ties are broken by document id, as Lucene compares them: by code point.
        self._rank = np.empty(len(self.ids), dtype=np.int64)
        self._rank[sorted(range(len(self.ids)), key=self.ids.__getitem__)] = np.arange(len(self.ids))
        self._columns = {term: number for number, term in enumerate(impacts.terms)}
        by_term = np.argsort(impacts.indices, kind="stable")
        rows = np.repeat(np.arange(len(impacts)), np.diff(impacts.indptr))
        self._documents = rows[by_term]
        self._impacts = impacts.values[by_term].astype(np.int64)
        lengths = np.bincount(impacts.indices, minlength=len(self._columns))
        self._bounds = np.concatenate([[0], np.cumsum(lengths)])
        self._largest = int(self._impacts.max(initial=0))

    @classmethod
    def from_vectors(cls, source: str | Path | Iterable[tuple[str, Mapping[str, int]]]) -> ExactSearcher:
        """From a folder or file of vectors, or from ``(id, {term: impact})`` pairs."""
        pairs = read_vectors(source) if isinstance(source, str | Path) else source
        ids: list[str] = []

        def vectors() -> Iterable[Mapping[str, int]]:
            for name, vector in pairs:
                ids.append(name)
                yield vector

        batch = SparseBatch.from_dicts(vectors(), dtype=np.int32)
        return cls(ids, batch)

    def search(self, query: Mapping[str, int], k: int = 1000) -> Hits:
        """The ``k`` best documents with a positive score: score descending, then id ascending, at the cut too."""
        scores = self.scores(query)
        found = np.flatnonzero(scores)
        if len(found) > k:
            worst = np.partition(scores[found], len(found) - k)[len(found) - k] if k else np.iinfo(np.int64).max
            found = found[scores[found] >= worst]
        best = found[np.lexsort((self._rank[found], -scores[found]))][:k]
        names = (self.ids[document] for document in best.tolist())
        return list(zip(names, scores[best].tolist(), strict=True))

    def search_batch(self, queries: Mapping[str, Mapping[str, int]], k: int = 1000) -> dict[str, Hits]:
        """``search`` for each of ``queries`` (by id), in their order."""
        return {name: self.search(query, k) for name, query in queries.items()}

    def scores(self, query: Mapping[str, int]) -> npt.NDArray[np.int64]:
        """The score of every document, in the order of ``ids``."""
        _check_query(query, self._largest)
        scores = np.zeros(len(self.ids), dtype=np.int64)
        for term, impact in query.items():
            number = self._columns.get(term)
            if number is not None and term not in RESERVED:
                postings = slice(self._bounds[number], self._bounds[number + 1])
                # A term occurs once in a document, so no place is added to twice.
                scores[self._documents[postings]] += impact * self._impacts[postings]
        return scores


def _check_query(query: Mapping[str, int], largest: int) -> None:
    for term, impact in query.items():
        if isinstance(impact, bool) or not isinstance(impact, int | np.integer) or impact < 0:
            raise LearnedSparseError(f"query term {term!r} has the impact {impact!r}, not a whole number from 0")
    if sum(map(int, query.values())) * largest > np.iinfo(np.int64).max:
        raise LearnedSparseError("scores would exceed 64 bits; quantise with a smaller factor")


def main(argv: list[str] | None = None) -> int:
    """``python -m learned_sparse.exact``: a TREC run without Java."""
    from learned_sparse.queries_export import read_topics
    from learned_sparse.trec import write_run

    parser = argparse.ArgumentParser(prog="python -m learned_sparse.exact", description=main.__doc__)
    parser.add_argument("--vectors", type=Path, required=True, help="folder that learned_sparse.encode wrote")
    parser.add_argument("--queries", type=Path, required=True, help="queries.tsv of learned_sparse.encode --queries")
    parser.add_argument("--output", type=Path, required=True, help="the run, in TREC's format")
    parser.add_argument("--hits", type=int, default=1000, help="documents per query (default: 1000)")
    parser.add_argument("--tag", default="exact", help="last column of the run (default: exact)")
    options = parser.parse_args(argv)
    if options.hits < 1:
        raise LearnedSparseError(f"--hits {options.hits}: give at least 1")
    queries = read_topics(options.queries)
    searcher = ExactSearcher.from_vectors(options.vectors)
    run = searcher.search_batch(queries, options.hits)
    write_run(options.output, run, options.tag)
    print(f"{len(queries)} queries, {len(searcher.ids)} documents: {options.output}")
    return 0


if __name__ == "__main__":
    from learned_sparse.cli import run_main

    run_main(main)
