"""The largest values of sparse rows."""

from __future__ import annotations

import numpy as np

from learned_sparse.records import SparseBatch


def largest(batch: SparseBatch, count: int) -> SparseBatch:
    """The ``count`` largest values of each row; of equal ones, those of the smaller term ids."""
    lengths = np.diff(batch.indptr)
    rows = np.repeat(np.arange(len(batch)), lengths)
    order = np.lexsort((batch.indices, -batch.values, rows))  # by row, then value, then term id
    rank = np.arange(len(order)) - np.repeat(batch.indptr[:-1], lengths)
    kept = np.sort(order[rank < count])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, count))]).astype(np.int64)
    return SparseBatch(indptr, batch.indices[kept], batch.values[kept], batch.terms)
