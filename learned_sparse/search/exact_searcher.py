"""Exact in-memory search by sparse matrix products, without Java."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from learned_sparse.core.errors import LearnedSparseError, positive_impacts
from learned_sparse.core.lines import RESERVED
from learned_sparse.core.records import SparseBatch

Scores = npt.NDArray[np.int32] | npt.NDArray[np.int64]


class ExactSearcher:
    """All impacts in memory; the score of a document is the exact integer dot product with the query.

    It is a backend for collections that fit into memory, and the reference that Lucene's scores must equal.

    Memory: 5 bytes per posting for impacts up to 255, 6 up to 65,535, 8 above, plus the ids and terms; about three
    times that while the matrix is built. A query takes 4 or 8 bytes per document, and up to 17 bytes for each posting
    of its terms.

    >>> documents = [("d1", {"hives": 3}), ("d2", {"hives": 1, "itch": 2}), ("d3", {})]
    >>> ExactSearcher.from_vectors(documents).search({"hives": 1, "itch": 1})
    [('d1', 3), ('d2', 3)]
    """

    def __init__(self, ids: Sequence[str], impacts: SparseBatch) -> None:
        """``impacts`` has one row of integers >= 0 for each of ``ids``, in the same order; any order will do."""
        if len(ids) != len(impacts):
            raise ValueError(f"{len(ids)} ids for {len(impacts)} vectors")
        if impacts.values.dtype.kind not in "iu" or impacts.values.min(initial=0) < 0:
            raise ValueError(f"impacts are integers >= 0, got {impacts.values.dtype} with {impacts.values.min()}")
        # Rows are sorted by id (code points, as Lucene sorts them), so that ties are broken by the row number.
        order = np.array(sorted(range(len(ids)), key=ids.__getitem__), dtype=np.int64)
        self._ids = np.array(ids, dtype=object)[order]
        self._largest = int(impacts.values.max(initial=0))
        index_type = np.int32 if len(impacts.values) <= np.iinfo(np.int32).max else np.int64
        values = impacts.values.astype(np.min_scalar_type(self._largest))
        rows = replace(impacts, indptr=impacts.indptr.astype(index_type), values=values).to_scipy()
        in_order = bool((order[:-1] < order[1:]).all())
        self._matrix = (rows if in_order else rows[order]).tocsc()
        self._column_of = {term: column for column, term in enumerate(impacts.terms) if term not in RESERVED}

    @classmethod
    def load(cls, *paths: str | Path) -> ExactSearcher:
        """Read ``JsonVectorCollection`` files: of each path, the file itself or all files below the folder.

        Lines and manifests are checked as by ``load_vectors``; an id may occur only once.
        """
        from learned_sparse.jsonvector.reader import load_vectors

        return cls(*load_vectors(paths))

    @classmethod
    def from_vectors(cls, vectors: Iterable[tuple[str, Mapping[str, int]]]) -> ExactSearcher:
        """From ``(id, {term: impact})`` pairs."""
        pairs = list(vectors)
        return cls([name for name, _ in pairs], SparseBatch.from_dicts((row for _, row in pairs), dtype=np.int32))

    def search(self, query: Mapping[str, int], k: int = 1000) -> list[tuple[str, int]]:
        """``(document id, score)`` of the ``k`` best documents with a positive score, ties by id ascending."""
        scores = self.scores(query)
        rows = best_rows(scores, k)
        return list(zip(self._ids[rows].tolist(), scores[rows].tolist(), strict=True))

    def search_batch(
        self, queries: Mapping[str, Mapping[str, int]], k: int = 1000, threads: int = 1
    ) -> dict[str, list[tuple[str, int]]]:
        """``{query id: hits}`` for ``{query id: {term: impact}}``; the matrix products of several threads overlap."""
        if threads == 1:
            return {name: self.search(query, k) for name, query in queries.items()}
        with ThreadPoolExecutor(threads) as pool:
            return dict(zip(queries, pool.map(partial(self.search, k=k), queries.values()), strict=True))

    def scores(self, query: Mapping[str, int]) -> Scores:
        """Score of every document, by ascending id: int32 if every possible score fits, else int64."""
        query = positive_impacts(query)
        bound = sum(map(int, query.values())) * self._largest
        if bound > np.iinfo(np.int64).max:
            raise LearnedSparseError("scores would exceed 64 bits; quantise with a smaller factor")
        dtype: Any = np.int32 if bound <= np.iinfo(np.int32).max else np.int64
        known = {self._column_of[term]: impact for term, impact in query.items() if term in self._column_of}
        if not known or not bound:
            return np.zeros(len(self._ids), dtype)
        scores: Scores = self._matrix[:, list(known)] @ np.array(list(known.values()), dtype)
        return scores


def best_rows(scores: Scores, k: int) -> npt.NDArray[np.int64]:
    """Rows of the ``k`` largest positive scores, largest first, ties by row.

    >>> best_rows(np.array([2, 0, 9, 2, 2]), 3).tolist()
    [2, 0, 3]
    """
    threshold = 1
    if len(scores) > k > 0:
        threshold = max(1, int(np.partition(scores, len(scores) - k)[len(scores) - k]))
    rows = np.flatnonzero(scores >= threshold)
    order: npt.NDArray[np.int64] = rows[np.argsort(-scores[rows], kind="stable")[: max(k, 0)]]
    return order
