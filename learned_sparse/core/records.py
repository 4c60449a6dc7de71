"""The record that rooms pass to each other: batches of sparse vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

EXPANDED = "\x1f"
"""Separator between a text and its expansion (ASCII unit separator: no tokenizer or analyzer reads it as text).

In texts of the input, it becomes a space."""


@dataclass(frozen=True, eq=False)
class SparseBatch:
    """Sparse vectors of several texts in CSR form (compressed sparse rows).

    >>> batch = SparseBatch.from_dicts([{"hives": 1.5, "itch": 0.5}, {}])
    >>> len(batch), batch.row(0), batch.row(1)
    (2, {'hives': 1.5, 'itch': 0.5}, {})
    """

    indptr: npt.NDArray[np.int64]
    """``(rows + 1,)``: row ``i`` is at positions ``indptr[i]`` to ``indptr[i + 1]`` of ``indices`` and ``values``."""
    indices: npt.NDArray[np.int32]
    """Term ids; ascending and unique within a row."""
    values: npt.NDArray[Any]
    """Floats (weights) or positive integers (impacts), one for each of ``indices``."""
    terms: Sequence[str]
    """``terms[j]`` spells term id ``j``; all batches of an encoder share this sequence."""
    truncated: int = 0
    """Texts that the encoder truncated at the maximum length."""
    dropped: int = 0
    """Weights that the encoder left out because Lucene cannot store their terms."""

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def row(self, index: int) -> dict[str, Any]:
        """Row ``index`` as ``{term: value}`` with plain Python numbers."""
        start, end = self.indptr[index], self.indptr[index + 1]
        names = (self.terms[j] for j in self.indices[start:end].tolist())
        return dict(zip(names, self.values[start:end].tolist(), strict=True))

    def rows(self, start: int, end: int) -> SparseBatch:
        """Rows ``start`` to ``end - 1``; their indices and values are views."""
        bounds = self.indptr[start : end + 1]
        first, last = bounds[0], bounds[-1]
        return SparseBatch(bounds - first, self.indices[first:last], self.values[first:last], self.terms)

    def take(self, order: Sequence[int] | npt.NDArray[np.int64]) -> SparseBatch:
        """Copy of the rows with the numbers ``order``, in that order."""
        lengths = np.diff(self.indptr)[order]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        taken = np.repeat(self.indptr[:-1][order] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return replace(self, indptr=indptr, indices=self.indices[taken], values=self.values[taken])

    def to_scipy(self) -> Any:
        """``scipy.sparse.csr_array`` of shape ``(rows, terms)`` that shares the arrays of this batch."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.indices, self.indptr), shape=(len(self), len(self.terms)))

    @classmethod
    def concatenate(cls, batches: Sequence[SparseBatch]) -> SparseBatch:
        """All rows of ``batches`` (at least one batch); terms of all batches.

        Allocates nothing large beside the result if all batches share their terms.
        """
        truncated, dropped = sum(batch.truncated for batch in batches), sum(batch.dropped for batch in batches)
        if any(batch.terms is not batches[0].terms for batch in batches):
            terms = list(dict.fromkeys(chain.from_iterable(batch.terms for batch in batches)))
            every = (batch.row(number) for batch in batches for number in range(len(batch)))
            batches = [cls.from_dicts(every, batches[0].values.dtype, terms=terms)]
        indptr = np.cumsum(np.concatenate([[0], *(np.diff(batch.indptr) for batch in batches)]), dtype=np.int64)
        indices = np.concatenate([batch.indices for batch in batches])
        values = np.concatenate([batch.values for batch in batches])
        return cls(indptr, indices, values, batches[0].terms, truncated, dropped)

    @classmethod
    def from_dicts(
        cls,
        rows: Iterable[Mapping[str, float]],
        dtype: npt.DTypeLike = np.float32,
        *,
        terms: Sequence[str] | None = None,
    ) -> SparseBatch:
        """Batch of ``{term: value}`` rows over ``terms``; by default over the terms in order of first occurrence."""
        numbers = {term: number for number, term in enumerate(terms or ())}
        lengths, indices, values = [0], [np.empty(0, np.int32)], [np.empty(0, dtype)]
        for row in rows:
            ids = np.array([numbers.setdefault(term, len(numbers)) for term in row], dtype=np.int32)
            order = np.argsort(ids)
            lengths.append(len(ids))
            indices.append(ids[order])
            values.append(np.array(list(row.values()), dtype=dtype)[order])
        if terms is not None and len(numbers) > len(terms):
            raise ValueError(f"{list(numbers)[len(terms)]!r} is not among the {len(terms)} terms")
        known = list(numbers) if terms is None else terms
        return cls(np.cumsum(lengths, dtype=np.int64), np.concatenate(indices), np.concatenate(values), known)
