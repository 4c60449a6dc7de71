"""How the tokens of a batch lie as rows of one matrix, and pooling of such rows per text."""

from __future__ import annotations

import itertools
from typing import Protocol

import torch
from torch import Tensor

_FEW = 0.05  # share of a tile's maxima below which each is looked for on its own
_RUN = 16  # tokens, at least
_ENTRIES_AT_ONCE = 16384  # whose texts' scores are gathered: 8 MB at 128 tokens


class Layout(Protocol):
    """Pooling of ``scores`` ``(rows, columns)`` over the rows of each text that count, to ``(texts, columns)``."""

    texts: int
    empty: Tensor
    """Which texts have no row that counts, ``(texts,)``."""
    first_rows: Tensor
    """The number of each text's first row, ``(texts,)``."""

    def max(self, scores: Tensor) -> Tensor:
        """The maxima (anything for a text without rows)."""

    def winners(self, scores: Tensor, text: Tensor, column: Tensor) -> Tensor:
        """The first row of each ``text`` that holds its maximum in ``column``, after ``max``; all ``(n,)``."""

    def sum(self, scores: Tensor) -> Tensor:
        """The sums."""

    def of_texts(self, scores: Tensor, text: Tensor, column: Tensor) -> Tensor:
        """Row by row from its first one the scores of each ``text`` ``(n,)`` in ``column``, -inf where none counts."""

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
        device = None if keep is None else keep.device
        self.empty = torch.zeros(texts, dtype=torch.bool) if keep is None else ~keep.any(1)
        self.first_rows = torch.arange(texts, device=device) * tokens

    def max(self, scores: Tensor) -> Tensor:
        return _maxima(self._fold(scores, float("-inf")))

    def winners(self, scores: Tensor, text: Tensor, column: Tensor) -> Tensor:
        if _are_many(text, scores, self.texts):
            token = scores.view(self.texts, self._tokens, -1).max(1).indices  # argmax takes three times as long
            return text * self._tokens + token[text, column]
        first = text * self._tokens
        return first + _first_largest(scores, first, torch.full_like(text, self._tokens), column)

    def sum(self, scores: Tensor) -> Tensor:
        return self._fold(scores, 0.0).sum(1)

    def of_texts(self, scores: Tensor, text: Tensor, column: Tensor) -> Tensor:
        return self._fold(scores, float("-inf"))[text, :, column]

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
    """Only the rows that count, text after text: no work on padding, one operation per text (or per length)."""

    def __init__(self, lengths: Tensor) -> None:
        self.texts, self.empty = len(lengths), lengths == 0
        self._lengths, self.first_rows = lengths, lengths.cumsum(0) - lengths
        self._text_of_row = torch.repeat_interleave(torch.arange(self.texts), lengths)
        self._spans = list(itertools.pairwise([0, *lengths.cumsum(0).tolist()]))
        self._equally_long: list[tuple[int, int, int, int]] = []  # first text, first row, texts, tokens
        text = 0
        for tokens, group in itertools.groupby(lengths.tolist()):
            texts = len(list(group))
            if tokens:
                self._equally_long.append((text, self._spans[text][0], texts, tokens))
            text += texts

    def max(self, scores: Tensor) -> Tensor:
        pooled = scores.new_empty(self.texts, scores.shape[1])
        for text, start, texts, tokens in self._equally_long:
            rows = scores[start : start + texts * tokens].view(texts, tokens, -1)
            _maxima(rows, out=pooled[text : text + texts])
        return pooled

    def winners(self, scores: Tensor, text: Tensor, column: Tensor) -> Tensor:
        if _are_many(text, scores, self.texts):
            rows = [scores[start:end].max(0).indices + start for start, end in self._spans if end > start]
            return torch.stack(rows)[(~self.empty).cumsum(0)[text] - 1, column]
        first = self.first_rows[text]
        return first + _first_largest(scores, first, self._lengths[text], column)

    def sum(self, scores: Tensor) -> Tensor:
        pooled = scores.new_empty(self.texts, scores.shape[1])
        for text, (start, end) in enumerate(self._spans):
            torch.sum(scores[start:end], 0, out=pooled[text])
        return pooled

    def of_texts(self, scores: Tensor, text: Tensor, column: Tensor) -> Tensor:
        length = self._lengths[text, None]
        token = torch.arange(int(self._lengths.max()))
        own = scores[self.first_rows[text, None] + token.minimum(length - 1), column[:, None]]
        return own.masked_fill_(token >= length, float("-inf"))

    def counted(self, positive: Tensor) -> Tensor:
        return positive

    def text_of(self, row: Tensor) -> Tensor:
        return self._text_of_row[row]

    def spread(self, gradient: Tensor) -> Tensor:
        return gradient[self._text_of_row]


def _maxima(scores: Tensor, out: Tensor | None = None) -> Tensor:
    """``scores.amax(1)`` of ``(texts, tokens, columns)``, on the CPU by runs of a few tokens first.

    A column is read row by row, and rows are pages apart: more of them than the processor keeps track of are slow to
    read (85 rows of 2,048 columns 7 GB/s, runs of 17 rows 24 GB/s). Runs may overlap, which changes no maximum.
    """
    tokens = scores.shape[1]
    runs = tokens // _RUN
    if runs > 1 and scores.device.type == "cpu":
        step = tokens // runs
        scores = scores.unfold(1, tokens - (runs - 1) * step, step).amax(3)
    return torch.amax(scores, 1) if out is None else torch.amax(scores, 1, out=out)


def _are_many(text: Tensor, scores: Tensor, texts: int) -> bool:
    return len(text) > _FEW * texts * scores.shape[1]


def _first_largest(scores: Tensor, first: Tensor, length: Tensor, column: Tensor) -> Tensor:
    """Of the ``length`` rows from ``first`` on, the place of the first largest score in ``column``; all ``(n,)``."""
    places = torch.empty_like(first)
    for start in range(0, len(first), _ENTRIES_AT_ONCE):
        part = slice(start, start + _ENTRIES_AT_ONCE)
        last = length[part, None] - 1
        token = torch.arange(int(last.max()) + 1, device=scores.device).minimum(last)  # the last row again: no first
        places[part] = scores[first[part, None] + token, column[part, None]].argmax(1)
    return places


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
