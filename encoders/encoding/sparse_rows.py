"""What is done with sparse rows beyond the batch: the largest values of each, and rows that come bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from learned_sparse.core import SparseBatch

Number = TypeVar("Number", np.int32, np.float32)
_ROOM = 2**18
"""Values that there is room for at first: 2 MB."""


class RowCollector:
    """A number of rows known before, copied into arrays that grow.

    A list of batches would leave something small in memory after each forward pass, in the midst of what that freed.
    The next one's large blocks would then not fit there: the process grew by 280 MB over 1,280 passages.
    """

    def __init__(self, rows: int, terms: Sequence[str]) -> None:
        self._terms = terms
        self._indptr = np.zeros(rows + 1, np.int64)
        self._indices, self._values = np.empty(_ROOM, np.int32), np.empty(_ROOM, np.float32)
        self._rows = self._size = 0

    def add(self, batch: SparseBatch) -> None:
        """Further rows."""
        end, rows = self._size + len(batch.values), self._rows + len(batch)
        if end > len(self._values):
            self._indices = _grown(self._indices, end, self._size)
            self._values = _grown(self._values, end, self._size)
        self._indices[self._size : end], self._values[self._size : end] = batch.indices, batch.values
        self._indptr[self._rows + 1 : rows + 1] = batch.indptr[1:] + self._size
        self._rows, self._size = rows, end

    def batch(self, order: npt.NDArray[np.int64]) -> SparseBatch:
        """The rows ``order`` of all that were added."""
        indptr = self._indptr[: self._rows + 1]
        return SparseBatch(indptr, self._indices[: self._size], self._values[: self._size], self._terms).take(order)


def _grown(array: npt.NDArray[Number], least: int, filled: int) -> npt.NDArray[Number]:
    longer = np.empty(max(least, 2 * len(array)), array.dtype)
    longer[:filled] = array[:filled]
    return longer


def largest(batch: SparseBatch, count: int) -> SparseBatch:
    """The ``count`` largest values of each row; of equal ones, those of the smaller term ids."""
    lengths = np.diff(batch.indptr)
    rows = np.repeat(np.arange(len(batch)), lengths)
    order = np.lexsort((batch.indices, -batch.values, rows))  # by row, then value, then term id
    rank = np.arange(len(order)) - np.repeat(batch.indptr[:-1], lengths)
    kept = np.sort(order[rank < count])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, count))]).astype(np.int64)
    return SparseBatch(indptr, batch.indices[kept], batch.values[kept], batch.terms)
