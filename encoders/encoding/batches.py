"""Texts of similar length as padded batches of token ids, and the largest weights of sparse rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch


@dataclass(frozen=True)
class BatchSize:
    """At most ``count`` tokens (padding included; a longer text is a batch by itself), or at most ``count`` texts."""

    count: int
    unit: str

    @classmethod
    def parse(cls, value: str | int) -> BatchSize:
        """``"4096t"`` is tokens, ``32`` or ``"32"`` texts.

        >>> BatchSize.parse("4096t"), BatchSize.parse(32)
        (BatchSize(count=4096, unit='tokens'), BatchSize(count=32, unit='texts'))
        """
        match = re.fullmatch(r"([1-9]\d*)(t?)", str(value))
        if match is None:
            raise LearnedSparseError(f"batch size {value!r}: give a number of texts (32) or of tokens (4096t)")
        return cls(int(match[1]), "tokens" if match[2] else "texts")

    def batches(self, lengths: npt.NDArray[np.int64], max_texts: int | None = None) -> Iterator[npt.NDArray[np.int64]]:
        """Indices of texts with these ``lengths``, longest first, in batches.

        ``max_texts`` limits the texts of a batch if tokens are counted.
        """
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            longest = max(int(lengths[order[start]]), 1)
            by_tokens = min(max(self.count // longest, 1), max_texts or self.count)
            texts = self.count if self.unit == "texts" else by_tokens
            yield order[start : start + texts]
            start += texts


def pad(
    tokens: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    padding_id: int,
    width: int | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """``input_ids`` and ``attention_mask``, ``(texts, width)``, padded on the right; ``width``: default the longest.

    Text ``i`` has the ``lengths[i]`` tokens from ``starts[i]`` on in ``tokens``.

    >>> ids, mask = pad(np.array([7, 8, 9]), np.array([0, 1]), np.array([1, 2]), 0)
    >>> ids.tolist(), mask.tolist()
    ([[7, 0], [8, 9]], [[1, 0], [1, 1]])
    """
    columns = np.arange(max(1, int(lengths.max()) if width is None else width))
    mask = columns < lengths[:, None]
    ids = np.full(mask.shape, padding_id)
    ids[mask] = tokens[(starts[:, None] + columns)[mask]]
    return ids, mask.astype(np.int64)


def keep_top_k(batch: SparseBatch, k: int) -> SparseBatch:
    """The ``k`` largest values of each row; of equal values, those of the smaller term ids."""
    lengths = np.diff(batch.indptr)
    rows = np.repeat(np.arange(len(batch)), lengths)
    order = np.lexsort((batch.indices, -batch.values, rows))  # by row, then value, then term id
    rank = np.arange(len(order)) - np.repeat(batch.indptr[:-1], lengths)
    kept = np.sort(order[rank < k])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, k))]).astype(np.int64)
    return SparseBatch(indptr, batch.indices[kept], batch.values[kept], batch.terms)
