"""An exact searcher in memory, without Java: a backend for collections that fit, and the oracle for Lucene."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from learned_sparse.core import RESERVED, LearnedSparseError, SparseBatch
from learned_sparse.search import Postings, Scores, best, load_vectors

Hits = list[tuple[str, int]]
"""``(document id, score)``, best first."""
Pairs = Iterable[tuple[str, Mapping[str, int]]]
"""``(id, {term: impact})``"""


class ExactSearcher:
    """All postings in memory, term by term; a score is the dot product of integers, and exact.

    A query costs time in proportion to the postings of its terms and to the number of documents. Memory is 5 bytes a
    posting with impacts up to 255, 6 up to 65,535, 8 beyond; about three times that while it is filled. Ids and
    terms come on top, and while a query is searched, 4 or 8 bytes a document and 8 to 12 a posting of its terms.

    >>> documents = [("d1", {"hives": 3}), ("d2", {"hives": 1, "itch": 2}), ("d3", {})]
    >>> ExactSearcher.from_vectors(documents).search({"hives": 1, "itch": 1})
    [('d1', 3), ('d2', 3)]
    """

    def __init__(self, ids: Sequence[str], impacts: SparseBatch) -> None:
        """``impacts`` has one row of positive integers for each of ``ids``."""
        if len(ids) != len(impacts):
            raise ValueError(f"{len(ids)} ids for {len(impacts)} vectors")
        # In the order that breaks ties, Lucene's: by code point. Of equal scores, the first is the better hit.
        order = np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)
        self._ids = np.array(ids, dtype=object)[order]
        self._postings = Postings(impacts, order)
        self._columns = {term: number for number, term in enumerate(impacts.terms) if term not in RESERVED}

    @property
    def ids(self) -> list[str]:
        """Of all documents, ascending."""
        names: list[str] = self._ids.tolist()
        return names

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self._ids)

    @classmethod
    def from_vectors(cls, source: str | Path | Sequence[str | Path] | Pairs) -> ExactSearcher:
        """From a folder or file of vectors, from several, or from ``(id, {term: impact})`` pairs.

        A folder that ``learned_sparse.encode`` wrote must hold as many documents and postings as its manifest says.
        """
        if isinstance(source, str | Path):
            return cls(*load_vectors([Path(source)]))
        if isinstance(source, Sequence) and source and isinstance(source[0], str | Path):
            return cls(*load_vectors([Path(path) for path in cast(Sequence[str | Path], source)]))
        ids: list[str] = []

        def vectors() -> Iterable[Mapping[str, int]]:
            for name, vector in cast(Pairs, source):
                ids.append(name)
                yield vector

        batch = SparseBatch.from_dicts(vectors(), dtype=np.int32)
        return cls(ids, batch)

    def search(self, query: Mapping[str, int], k: int = 1000) -> Hits:
        """The ``k`` best documents with a positive score: score descending, then id ascending, at the cut too."""
        scores = self.scores(query)
        found = best(scores, k)
        return list(zip(self._ids[found].tolist(), scores[found].tolist(), strict=True))

    def search_batch(
        self, queries: Mapping[str, Mapping[str, int]], k: int = 1000, threads: int = 1
    ) -> dict[str, Hits]:
        """``search`` for each of ``queries`` (by id), in their order; the threads share the queries out."""
        if threads == 1:
            return {name: self.search(query, k) for name, query in queries.items()}
        with ThreadPoolExecutor(threads) as pool:
            return dict(zip(queries, pool.map(partial(self.search, k=k), queries.values()), strict=True))

    def scores(self, query: Mapping[str, int]) -> Scores:
        """The score of every document, in the order of ``ids``: int32 where all that is possible fits, else int64."""
        _check_query(query, self._postings.largest)
        known = [
            (self._columns[term], int(impact)) for term, impact in query.items() if impact and term in self._columns
        ]
        return self._postings.scores([column for column, _ in known], [impact for _, impact in known])


def _check_query(query: Mapping[str, int], largest: int) -> None:
    for term, impact in query.items():
        if isinstance(impact, bool) or not isinstance(impact, int | np.integer) or impact < 0:
            raise LearnedSparseError(f"query term {term!r} has the impact {impact!r}, not a whole number from 0")
    if sum(map(int, query.values())) * largest > np.iinfo(np.int64).max:
        raise LearnedSparseError("scores would exceed 64 bits; quantise with a smaller factor")


def main(argv: list[str] | None = None) -> int:
    """``python -m learned_sparse.exact``: a TREC run without Java."""
    from learned_sparse.collections import write_run
    from learned_sparse.jsonvector import read_topics

    parser = argparse.ArgumentParser(prog="python -m learned_sparse.exact", description=main.__doc__)
    parser.add_argument(
        "--vectors", type=Path, required=True, nargs="+", metavar="DIR", help="what learned_sparse.encode wrote"
    )
    parser.add_argument("--queries", type=Path, required=True, help="queries.tsv of learned_sparse.encode --queries")
    parser.add_argument("--output", type=Path, required=True, help="the run, in TREC's format")
    parser.add_argument("--hits", type=int, default=1000, help="documents per query (default: 1000)")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="default: one per core, %(default)s")
    parser.add_argument("--tag", default="exact", help="last column of the run (default: exact)")
    options = parser.parse_args(argv)
    for option in ("hits", "threads"):
        if (number := getattr(options, option)) < 1:
            raise LearnedSparseError(f"--{option} {number}: give at least 1")
    queries = read_topics(options.queries)
    searcher = ExactSearcher.from_vectors(options.vectors)
    run = searcher.search_batch(queries, options.hits, options.threads)
    write_run(options.output, run, options.tag)
    print(f"{len(queries)} queries, {len(searcher)} documents: {options.output}")
    return 0


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
