"""Tokenised texts to batches of similar length."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from learned_sparse.core import LearnedSparseError


@dataclass(frozen=True)
class BatchSize:
    """At most ``count`` tokens (padding included; a longer text is a batch of its own), or at most ``count`` texts."""

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

    def batches(self, lengths: npt.NDArray[np.int64], most_texts: int | None = None) -> Iterator[npt.NDArray[np.int64]]:
        """The places of texts of these lengths, longest first, in batches.

        ``most_texts`` are in one batch when tokens are counted, however short they are.
        """
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            longest = max(int(lengths[order[start]]), 1)
            by_tokens = min(max(self.count // longest, 1), most_texts or self.count)
            texts = self.count if self.unit == "texts" else by_tokens
            yield order[start : start + texts]
            start += texts


def pad(sequences: Sequence[Sequence[int]], padding_id: int) -> tuple[Tensor, Tensor]:
    """``input_ids`` and ``attention_mask``, ``(batch, tokens)``, padded on the right to the longest."""
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    tokens = np.fromiter((token for sequence in sequences for token in sequence), np.int64, int(lengths.sum()))
    return pad_slices(tokens, np.cumsum(lengths) - lengths, lengths, padding_id)


def pad_slices(
    tokens: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], padding_id: int
) -> tuple[Tensor, Tensor]:
    """As :func:`pad`, for the ``lengths`` tokens from ``starts`` in ``tokens``."""
    columns = np.arange(max(1, int(lengths.max())))
    mask = columns < lengths[:, None]
    places = starts[:, None] + columns
    ids = np.full(mask.shape, padding_id)
    ids[mask] = tokens[places[mask]]
    return torch.from_numpy(ids), torch.from_numpy(mask.astype(np.int64))
