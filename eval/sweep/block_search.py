"""Exact search of many queries at once in memory, as sparse matrix products of blocks of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse

from learned_sparse.core import LearnedSparseError, SparseBatch

SCORES = 2**23
"""Scores held at a time, at most 24 bytes each."""


class BlockSearcher:
    """As ``learned_sparse.exact``, which it must equal, for queries that share the documents' list of terms.

    Scores are dot products of integers in int64.
    """

    def __init__(self, ids: Sequence[str], impacts: SparseBatch) -> None:
        """``impacts`` has one row of positive integers for each of ``ids``."""
        self._ids = list(ids)
        self._largest = int(impacts.values.max(initial=0))
        order = sorted(range(len(self._ids)), key=self._ids.__getitem__)
        self._by_id = np.array(order, dtype=np.int64)
        # Columns in the order of the ids: of equal scores, the smaller column comes first.
        self._documents = _matrix(impacts.take(self._by_id)).T.tocsr()

    def search(self, names: Sequence[str], impacts: SparseBatch, hits: int) -> dict[str, list[tuple[str, float]]]:
        """The ``hits`` best documents with a positive score for each of ``names``, best first, ties by id."""
        self._check(impacts)
        queries, found = _matrix(impacts), {}
        step = max(1, SCORES // max(1, len(self._ids)))
        for start in range(0, len(names), step):
            scores = (queries[start : start + step] @ self._documents).toarray()
            for name, row in zip(names[start : start + step], scores, strict=True):
                found[name] = self._best(row, hits)
        return found

    def _best(self, scores: npt.NDArray[np.int64], hits: int) -> list[tuple[str, float]]:
        places = np.flatnonzero(scores)
        if len(places) > hits:
            worst = np.partition(scores[places], len(places) - hits)[len(places) - hits]
            places = places[scores[places] >= worst]
        best = places[np.argsort(-scores[places], kind="stable")][:hits]
        names = (self._ids[document] for document in self._by_id[best].tolist())
        return list(zip(names, scores[best].astype(float).tolist(), strict=True))

    def _check(self, queries: SparseBatch) -> None:
        so_far = np.concatenate([[0], np.cumsum(queries.values, dtype=np.int64)])
        if int(np.diff(so_far[queries.indptr]).max(initial=0)) * self._largest > np.iinfo(np.int64).max:
            raise LearnedSparseError("scores would exceed 64 bits; quantise with a smaller factor")


def _matrix(batch: SparseBatch) -> Any:
    shape = (len(batch), len(batch.terms))
    return scipy.sparse.csr_array((batch.values.astype(np.int64), batch.indices, batch.indptr), shape=shape)
