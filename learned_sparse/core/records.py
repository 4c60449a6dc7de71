"""The words of the domain: documents, queries, and batches of sparse vectors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

EXPANDED = "\x1f"
"""Stands between a text and what expands it (ASCII's unit separator: no tokenizer and no analyzer reads it as text)."""


def without_mark(text: str) -> str:
    """``text`` as it may be read: where it holds ``EXPANDED`` itself, there is a space."""
    return text.replace(EXPANDED, " ")


@dataclass(frozen=True, slots=True)
class Document:
    """One document; ``text`` is all there is to encode (a title is already joined in front)."""

    id: str
    text: str
    expanded: str = ""
    """Further text to encode, such as docT5query's queries; only encoders that ask for it read it."""

    @property
    def with_expanded(self) -> str:
        """``text``, and after ``EXPANDED`` what expands it: what encoders that ask for it are handed."""
        return f"{self.text}{EXPANDED}{self.expanded}" if self.expanded else self.text


@dataclass(frozen=True, slots=True)
class Query:
    """One query (a *topic* in TREC's words)."""

    id: str
    text: str


@dataclass(frozen=True, eq=False)
class SparseBatch:
    """Sparse vectors of several texts in CSR form.

    Row ``i`` has the term ids ``indices[indptr[i]:indptr[i + 1]]`` (ascending, no repeats) with the values at the same
    places in ``values``: floats (*weights*) or positive integers (*impacts*). ``terms[j]`` spells term id ``j``; the
    list is shared by all batches of one encoder, never copied.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[Any]
    terms: Sequence[str]

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def row(self, index: int) -> dict[str, Any]:
        """Row ``index`` as ``{term: value}`` of plain Python numbers: for one query, or for a person to look at."""
        start, end = self.indptr[index], self.indptr[index + 1]
        names = (self.terms[j] for j in self.indices[start:end].tolist())
        return dict(zip(names, self.values[start:end].tolist(), strict=True))

    def rows(self, start: int, end: int) -> SparseBatch:
        """The rows from ``start`` to before ``end``; their terms and values are views, not copies."""
        bounds = self.indptr[start : end + 1]
        first, after = bounds[0], bounds[-1]
        return SparseBatch(bounds - first, self.indices[first:after], self.values[first:after], self.terms)

    def take(self, order: Sequence[int] | npt.NDArray[np.int64]) -> SparseBatch:
        """The rows ``order``, in that order."""
        return self.concatenate([self], order)

    @classmethod
    def concatenate(
        cls, batches: Sequence[SparseBatch], order: Sequence[int] | npt.NDArray[np.int64] | None = None
    ) -> SparseBatch:
        """All rows of ``batches`` (at least one, over the same terms), or the rows ``order`` of them all.

        Beside the batches and the result nothing large is in memory.
        """
        lengths = np.concatenate([np.diff(batch.indptr) for batch in batches])
        if order is None:
            indices, values = [batch.indices for batch in batches], [batch.values for batch in batches]
        else:
            rows = [(batch, slice(*ends)) for batch in batches for ends in pairwise(batch.indptr.tolist())]
            places = np.asarray(order, dtype=np.int64)
            lengths, rows = lengths[places], [rows[place] for place in places.tolist()]
            indices = [batches[0].indices[:0], *(batch.indices[row] for batch, row in rows)]
            values = [batches[0].values[:0], *(batch.values[row] for batch, row in rows)]
        indptr = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=indptr[1:])
        return cls(indptr, np.concatenate(indices), np.concatenate(values), batches[0].terms)

    @classmethod
    def from_dicts(cls, rows: Iterable[Mapping[str, float]], dtype: npt.DTypeLike = np.float32) -> SparseBatch:
        """Rows given as dicts; the terms are numbered in order of first appearance."""
        numbers: dict[str, int] = {}
        lengths, indices, values = [0], [np.empty(0, np.int32)], [np.empty(0, dtype)]
        for row in rows:
            ids = np.array([numbers.setdefault(term, len(numbers)) for term in row], dtype=np.int32)
            order = np.argsort(ids)
            lengths.append(len(ids))
            indices.append(ids[order])
            values.append(np.array(list(row.values()), dtype=dtype)[order])
        return cls(np.cumsum(lengths, dtype=np.int64), np.concatenate(indices), np.concatenate(values), list(numbers))
