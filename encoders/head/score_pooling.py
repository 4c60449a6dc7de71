"""Pooled scores with gradients, without ever holding (rows, vocabulary)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch import Tensor

from encoders.head.sparse_gradients import Entries, column_sums, entry_gradients

Pooled = tuple[Tensor, Entries, list[tuple[int, int]]]


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

    def max_and_entries(
        self, rows: Tensor, weight: Tensor, bias: Tensor, *, relu: bool, log: bool
    ) -> tuple[Tensor, Entries]:
        """As ``max``; and the rows that won, with their scores: those above 0, or all without ReLU."""

    def sum(self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool) -> Tensor:
        """Sums of the ReLU of the scores, or of its log(1 + x)."""

    def sum_and_entries(self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool) -> Pooled:
        """The sums; the positive scores where they are few; and the spans of columns where they are not."""

    def text_of(self, row: Tensor) -> Tensor:
        """The text each row number belongs to."""

    def score_gradients(
        self, rows: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor, spans: list[tuple[int, int]], *, log: bool
    ) -> Iterator[tuple[tuple[int, int], Tensor, Tensor]]:
        """Of sums whose gradient is ``gradient``: spans of columns, the gradient of the scores there (in ``dtype``,
        ``(rows, columns)``), and its sum over rows. ``rows`` and ``weight`` come in ``dtype``.
        """


def max_over_rows(rows: Tensor, weight: Tensor, bias: Tensor, scores: Scores, *, relu: bool, log: bool) -> Tensor:
    """:meth:`Scores.max` with gradient, which goes to the rows that won: one a text and term."""

    def pooled() -> Pooled:
        weights, entries = scores.max_and_entries(rows, weight, bias, relu=relu, log=log)
        return weights, entries, []

    return _OverRows.apply(rows, weight, bias, scores, pooled, log)  # type: ignore[no-untyped-call, no-any-return]


def sum_over_rows(rows: Tensor, weight: Tensor, bias: Tensor, scores: Scores, *, log: bool) -> Tensor:
    """:meth:`Scores.sum` with gradient.

    ReLU makes the scores sparse: where few are positive just those are kept, the others are computed again in the
    backward pass.
    """

    def pooled() -> Pooled:
        return scores.sum_and_entries(rows, weight, bias, log=log)

    return _OverRows.apply(rows, weight, bias, scores, pooled, log)  # type: ignore[no-untyped-call, no-any-return]


class _OverRows(torch.autograd.Function):
    """What was pooled, and which scores it depends on: ``entries``, and all positive ones in ``spans`` of columns."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, scores: Scores, pooled: Callable[[], Pooled], log: bool
    ) -> Tensor:
        weights, entries, ctx.spans = pooled()
        ctx.save_for_backward(rows, weight, bias, *entries)
        ctx.scores, ctx.log = scores, log
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient, scores = _without_smallest(gradients[0]), ctx.scores
        rows, weight, bias, row, column, score = ctx.saved_tensors
        value = gradient[scores.text_of(row.long()), column.long()]
        value = value / (1 + score) if ctx.log else value
        d_rows, d_weight = entry_gradients(rows, weight, (row, column, value), ctx.needs_input_grad)
        d_bias = column_sums(column, len(bias), value)
        if ctx.spans:
            rows, weight = rows.to(scores.dtype), weight.to(scores.dtype)
        found = scores.score_gradients(rows, weight, bias, gradient, ctx.spans, log=ctx.log)
        for (start, end), d_scores, d_offset in found:
            d_bias[start:end] += d_offset
            if d_rows is not None:
                d_rows += d_scores @ weight[start:end]
            if d_weight is not None:
                d_weight[start:end] += d_scores.t() @ rows
        return d_rows, d_weight, d_bias, None, None, None


def _without_smallest(gradient: Tensor) -> Tensor:
    """Zeros for what would become denormal on its way through the model: products with such numbers are slow.

    They come from a softmax that is sure of its choice; a backward pass with them took 2.2 s instead of 1.4.
    """
    return gradient.masked_fill(gradient.abs() < 1e8 * torch.finfo(gradient.dtype).tiny, 0.0).contiguous()
