"""Impacts in memory, term by term, and the documents that score best by them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from learned_sparse.core import SparseBatch

Scores = npt.NDArray[np.int32] | npt.NDArray[np.int64]

STEP = 16
"""Every so manieth score is looked at to guess which are among the best."""
_INT32 = np.iinfo(np.int32).max


class Postings:
    """The columns of a matrix of documents by terms: document numbers in int32, impacts in as few bytes as they need.

    5 bytes a posting with impacts up to 255, 6 up to 65,535, 8 beyond; about three times that while it is made. All
    that takes long here lets other threads of Python run meanwhile.
    """

    def __init__(self, impacts: SparseBatch, order: npt.NDArray[np.int64]) -> None:
        """Document ``i`` has row ``order[i]`` of ``impacts``, which are integers from 0."""
        from scipy.sparse import csr_array

        values = impacts.values
        if values.dtype.kind not in "iu" or values.min(initial=0) < 0:
            raise ValueError(f"impacts are integers from 0, got {values.dtype} from {values.min(initial=0)}")
        self.largest = int(values.max(initial=0))
        values = values.astype(np.min_scalar_type(self.largest))
        bounds = impacts.indptr.astype(np.int32 if len(values) <= _INT32 else np.int64)
        rows = csr_array((values, impacts.indices, bounds), shape=(len(impacts), len(impacts.terms)))
        in_order = bool((order[:-1] < order[1:]).all())
        columns = (rows if in_order else rows[order]).tocsc()
        self._documents = columns.indices.astype(np.int32, copy=False)
        self._impacts = columns.data
        self._bounds = columns.indptr
        self.documents = len(impacts)

    def scores(self, columns: list[int], weights: list[int]) -> Scores:
        """For each document the sum over ``columns`` of weight times impact, which 64 bits must hold."""
        from scipy.sparse import csc_array

        dtype: Any = np.int32 if sum(weights) * self.largest <= _INT32 else np.int64
        if not columns or not self.largest:
            return np.zeros(self.documents, dtype)
        starts, ends = self._bounds[columns], self._bounds[np.add(columns, 1)]
        places = list(map(slice, starts.tolist(), ends.tolist()))
        documents = np.concatenate([self._documents[place] for place in places])
        impacts = np.concatenate([self._impacts[place] for place in places], dtype=dtype, casting="same_kind")
        bounds = np.concatenate([[0], np.cumsum(ends - starts)])
        bounds = bounds.astype(np.int32 if len(documents) <= _INT32 else np.int64)
        # Two copies and one pass of compiled code: a third of the time of adding the columns up one by one.
        some = csc_array((impacts, documents, bounds), shape=(self.documents, len(columns)))
        found: Scores = some @ np.array(weights, dtype)
        return found


def best(scores: Scores, k: int) -> npt.NDArray[np.int64]:
    """The places of the ``k`` largest positive scores, largest first, of equal ones the first places first.

    >>> best(np.array([2, 0, 9, 2, 2]), 3).tolist()
    [2, 0, 3]
    """
    if k < 1:
        return np.empty(0, np.int64)
    found = np.flatnonzero(scores >= _guess(scores, k))
    if len(found) < k:
        found = np.flatnonzero(scores > 0)
    if len(found) > k:
        values = scores[found]
        # np.partition is no faster, and with AVX-512 fifty times slower where most values are equal.
        worst = np.sort(values)[len(values) - k]
        found, tied = found[values > worst], found[values == worst]
        found = np.concatenate([found, tied[: k - len(found)]])
    order: npt.NDArray[np.int64] = found[np.argsort(-scores[found], kind="stable")]
    return order


def _guess(scores: Scores, k: int) -> int:
    """A score that a little more than ``k`` of all reach, in all likelihood, told from a sample; at least 1."""
    sample = np.sort(scores[::STEP])
    share = k / STEP
    rank = math.ceil(share + 3 * math.sqrt(share) + 3)
    return max(1, int(sample[-rank])) if rank <= len(sample) else 1
