"""Pooled scores with gradients, without ever holding (rows, vocabulary)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from encoders.sparse_gradients import Entries, entry_gradients


class Scores(Protocol):
    """``scores = rows @ weight.T + bias``, pooled over the rows of each text that count to ``(texts, vocabulary)``.

    ``rows`` is ``(rows, hidden)``, ``weight`` ``(vocabulary, hidden)``, ``bias`` ``(vocabulary,)``; products are
    summed in float32 or wider. A text without rows pools to 0.
    """

    @property
    def dtype(self) -> torch.dtype:
        """What products are taken in."""

    def max(self, rows: Tensor, weight: Tensor, bias: Tensor, *, relu: bool, log: bool) -> Tensor:
        """The maxima, with ReLU and log(1 + x) if asked."""

    def max_with_row(self, rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The maxima without bias (anything for a text without rows), and the row each stands in, as int32."""

    def sum(self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool) -> Tensor:
        """Sums of the ReLU of the scores, or of its log(1 + x)."""

    def sum_and_entries(
        self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool
    ) -> tuple[Tensor, Entries, list[tuple[int, int]]]:
        """The sums; the positive scores where they are few; and the spans of columns where they are not."""

    def text_of(self, row: Tensor) -> Tensor:
        """The text each row number belongs to."""

    def score_gradients(
        self, rows: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor, spans: list[tuple[int, int]], *, log: bool
    ) -> Iterator[tuple[tuple[int, int], Tensor, Tensor]]:
        """Of sums whose gradient is ``gradient``: spans of columns, the gradient of the scores there (in ``dtype``,
        ``(rows, columns)``), and its sum over rows. ``rows`` and ``weight`` come in ``dtype``.
        """


def max_over_rows(rows: Tensor, weight: Tensor, scores: Scores) -> Tensor:
    """The maxima without bias; the backward pass touches only the winning rows, one per text and term."""
    return _MaxOverRows.apply(rows, weight, scores)  # type: ignore[no-untyped-call, no-any-return]


def sum_over_rows(rows: Tensor, weight: Tensor, bias: Tensor, scores: Scores, *, log: bool) -> Tensor:
    """Sums of (saturated) ReLU scores.

    ReLU makes the scores sparse: where few are positive just those are kept, the others are computed again in the
    backward pass.
    """
    return _SumOverRows.apply(rows, weight, bias, scores, log)  # type: ignore[no-untyped-call, no-any-return]


class _MaxOverRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, scores: Scores) -> Tensor:
        pooled, winner = scores.max_with_row(rows, weight)
        ctx.save_for_backward(rows, weight, winner)
        return pooled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        rows, weight, winner = ctx.saved_tensors
        text, column = gradients[0].nonzero(as_tuple=True)
        entries = (winner[text, column], column, gradients[0][text, column])
        return *entry_gradients(rows, weight, entries, ctx.needs_input_grad), None


class _SumOverRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, scores: Scores, log: bool) -> Tensor:
        pooled, entries, ctx.spans = scores.sum_and_entries(rows, weight, bias, log=log)
        ctx.save_for_backward(rows, weight, bias, *entries)
        ctx.scores, ctx.log = scores, log
        return pooled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient, scores = gradients[0].contiguous(), ctx.scores
        rows, weight, bias, row, column, score = ctx.saved_tensors
        value = gradient[scores.text_of(row.long()), column.long()]
        value = value / (1 + score) if ctx.log else value
        d_rows, d_weight = entry_gradients(rows, weight, (row, column, value), ctx.needs_input_grad)
        d_bias = torch.zeros_like(bias, dtype=gradient.dtype).index_add_(0, column.long(), value)
        if ctx.spans:
            rows, weight = rows.to(scores.dtype), weight.to(scores.dtype)
        found = scores.score_gradients(rows, weight, bias, gradient, ctx.spans, log=ctx.log)
        for (start, end), d_scores, d_offset in found:
            d_bias[start:end] += d_offset
            if d_rows is not None:
                d_rows += d_scores @ weight[start:end]
            if d_weight is not None:
                d_weight[start:end] += d_scores.t() @ rows
        return d_rows, d_weight, d_bias, None, None
