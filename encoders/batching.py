"""Tokenised texts to batches of similar length."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from learned_sparse.errors import LearnedSparseError


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
    width = max(1, *(len(sequence) for sequence in sequences))
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    mask = (torch.arange(width) < lengths[:, None]).long()
    ids = torch.full((len(sequences), width), padding_id)
    ids[mask.bool()] = torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.long)
    return ids, mask
