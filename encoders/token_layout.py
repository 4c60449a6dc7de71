"""How the tokens of a batch lie as rows of one matrix, and pooling of such rows per text."""

from __future__ import annotations

import itertools
from typing import Protocol

import torch
from torch import Tensor


class Layout(Protocol):
    """Pooling of ``scores`` ``(rows, columns)`` over the rows of each text that count, to ``(texts, columns)``."""

    texts: int
    empty: Tensor
    """Which texts have no row that counts, ``(texts,)``."""

    def max(self, scores: Tensor) -> Tensor:
        """The maxima (anything for a text without rows)."""

    def max_with_row(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The maxima, and the number of the row each one stands in."""

    def sum(self, scores: Tensor) -> Tensor:
        """The sums."""

    def counted(self, positive: Tensor) -> Tensor:
        """``positive`` without the rows that do not count."""

    def text_of(self, row: Tensor) -> Tensor:
        """The text each row number belongs to."""

    def spread(self, gradient: Tensor) -> Tensor:
        """``(texts, columns)`` to ``(rows, columns)``: the backward pass of ``sum``."""


class Rectangle:
    """``texts * tokens`` rows, padding included and masked: few, large operations."""

    def __init__(self, texts: int, tokens: int, keep: Tensor | None) -> None:
        self.texts, self._tokens, self._keep = texts, tokens, None if keep is None else keep.reshape(-1, 1)
        self.empty = torch.zeros(texts, dtype=torch.bool) if keep is None else ~keep.any(1)

    def max(self, scores: Tensor) -> Tensor:
        return self._fold(scores, float("-inf")).amax(1)

    def max_with_row(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        values, token = self._fold(scores, float("-inf")).max(1)
        return values, token + self._tokens * torch.arange(self.texts, device=scores.device)[:, None]

    def sum(self, scores: Tensor) -> Tensor:
        return self._fold(scores, 0.0).sum(1)

    def counted(self, positive: Tensor) -> Tensor:
        return positive if self._keep is None else positive & self._keep

    def text_of(self, row: Tensor) -> Tensor:
        return row // self._tokens

    def spread(self, gradient: Tensor) -> Tensor:
        spread = gradient[:, None, :].expand(-1, self._tokens, -1).reshape(-1, gradient.shape[1])
        return spread if self._keep is None else spread * self._keep

    def _fold(self, scores: Tensor, ignored: float) -> Tensor:
        if self._keep is not None:
            scores = scores.masked_fill_(~self._keep, ignored)
        return scores.view(self.texts, self._tokens, -1)


class Ragged:
    """Only the rows that count, text after text: no work on padding, one operation per text."""

    def __init__(self, lengths: Tensor) -> None:
        self.texts, self.empty = len(lengths), lengths == 0
        self._ends = lengths.cumsum(0)
        self._text_of_row = torch.repeat_interleave(torch.arange(self.texts), lengths)
        starts = [0, *self._ends.tolist()]
        self._spans = list(itertools.pairwise(starts))

    def max(self, scores: Tensor) -> Tensor:
        pooled = scores.new_zeros(self.texts, scores.shape[1])
        for text, (start, end) in enumerate(self._spans):
            if end > start:
                torch.amax(scores[start:end], 0, out=pooled[text])
        return pooled

    def max_with_row(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        pooled = scores.new_zeros(self.texts, scores.shape[1])
        winner = torch.zeros_like(pooled, dtype=torch.long)
        for text, (start, end) in enumerate(self._spans):
            if end > start:
                torch.max(scores[start:end], 0, out=(pooled[text], winner[text]))
                winner[text] += start
        return pooled, winner

    def sum(self, scores: Tensor) -> Tensor:
        pooled = scores.new_empty(self.texts, scores.shape[1])
        for text, (start, end) in enumerate(self._spans):
            torch.sum(scores[start:end], 0, out=pooled[text])
        return pooled

    def counted(self, positive: Tensor) -> Tensor:
        return positive

    def text_of(self, row: Tensor) -> Tensor:
        return self._text_of_row[row]

    def spread(self, gradient: Tensor) -> Tensor:
        return gradient[self._text_of_row]


def lay_out(hidden: Tensor, mask: Tensor) -> tuple[Layout, Tensor]:
    """A layout for ``hidden`` ``(batch, tokens, hidden)`` where ``mask`` ``(batch, tokens)`` says what counts; rows.

    On the CPU padding is dropped, which saves its share of the work; elsewhere many small operations would cost more.
    """
    texts, tokens, width = hidden.shape
    keep = mask.bool()
    if hidden.device.type != "cpu":
        return Rectangle(texts, tokens, keep), hidden.reshape(-1, width)
    if bool(keep.all()):
        return Rectangle(texts, tokens, None), hidden.reshape(-1, width)
    return Ragged(keep.sum(1)), hidden[keep]
