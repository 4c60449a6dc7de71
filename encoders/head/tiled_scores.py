"""Scores of all tokens and terms, computed in tiles of columns and pooled over the tokens of each text."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

Pooling = Literal["sum", "max"]

_SCORES_ON_CPU = 6 * 2**20  # of a tile: 24 MB stay near the caches; 33 MB took 5 % longer
_COLUMNS_ON_CPU = (2048, 8192)  # minimum and maximum; for ten texts, 72 ms with 8,192, 78 with 2,048
_COLUMNS_OF_ONEDNN = 512  # as fast as 2,048; each tile is a new tensor, and large ones fragment the memory
_COLUMNS_ON_ACCELERATOR = 8192
_FEW_TERMS = 0.1  # share of positive maxima in a tile below which only the scores behind them are read
_SPARSE_BELOW = 0.05  # share of positive scores in a tile below which they are kept instead of computed again
_FEW_WINNERS = 0.05  # share of a tile's maxima below which each winner is searched separately
_RUN = 16  # tokens; minimum length of the runs of a maximum
_CHUNK = 16384  # winners searched at once: 8 MB of scores at 128 tokens

Span = tuple[int, int]
"""First column, and the column after the last."""
Entries = tuple[Tensor, Tensor, Tensor]
"""Row, column and value of the non-zero entries of a ``(rows, vocabulary)`` matrix."""


def accumulator(tensor: Tensor) -> torch.dtype:
    """Data type of results: float32 or wider."""
    return torch.promote_types(tensor.dtype, torch.float32)


def compute_dtype(hidden: Tensor) -> torch.dtype:
    """Data type of matrix products: that of autocast, or the tensor's own."""
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def product(rows: Tensor, weight: Tensor) -> Tensor:
    """``rows @ weight.T``, both of one data type.

    In float32 on a CPU with AVX-512 by oneDNN, which adds up each score in the same order for any two or more rows and
    columns (a single one is doubled). The order of MKL, which ``torch.mm`` calls, depends on the shape, and MKL is
    slower there; with AVX2 it is a tenth faster.
    """
    if not by_onednn(rows):
        return rows @ weight.t()
    twice = [each.repeat(2, 1) if len(each) == 1 else each for each in (rows, weight)]
    scores: Tensor = torch.ops.mkldnn._linear_pointwise(*twice, None, "none", [], "")  # noqa: SLF001
    return scores[: len(rows), : len(weight)]


def by_onednn(rows: Tensor) -> bool:
    """Whether ``product`` adds up the scores of ``rows`` in an order that does not depend on the shape."""
    return (
        rows.dtype == torch.float32
        and rows.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() != "AVX2"
    )


def pooled_with_gradient(
    rows: Tensor, weight: Tensor, bias: Tensor, scores: TiledScores, pooling: str, *, relu: bool, log: bool,
    max_and_entries: Callable[..., tuple[Tensor, Entries]] | None = None,
) -> Tensor:  # fmt: skip
    """``scores.max`` or ``scores.sum`` (``pooling``) with gradients, without ever holding ``(rows, vocabulary)``.

    The gradient of a maximum goes to the row that won: one per text and term. For sums, ReLU makes the scores sparse:
    the positive scores are kept where they are few, and computed again in the backward pass elsewhere.
    ``max_and_entries`` is that of ``scores`` unless it is given.
    """
    maxima = max_and_entries or functools.partial(scores.max_and_entries, relu=relu)
    return _Pooled.apply(rows, weight, bias, scores, pooling, maxima, log)  # type: ignore[no-untyped-call, no-any-return]


class _Pooled(torch.autograd.Function):
    """Saves the scores that the result depends on: ``entries``, and all positive ones in ``spans`` of columns."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, scores: TiledScores, pooling: str,
        maxima: Callable[..., tuple[Tensor, Entries]], log: bool,
    ) -> Tensor:  # fmt: skip
        ctx.scores, ctx.log, ctx.spans = scores, log, []
        if pooling == "max":
            weights, entries = maxima(rows, weight, bias, log=log)
        else:
            weights, entries, ctx.spans = scores.sum_and_entries(rows, weight, bias, log=log)
        ctx.save_for_backward(rows, weight, bias, *entries)
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        scores: TiledScores = ctx.scores
        rows, weight, bias, row, column, score = ctx.saved_tensors
        # Products with denormal numbers are slow (2.2 s instead of 1.4 for a backward pass), and a softmax that is
        # sure of its choice gives gradients that become denormal on their way through the model.
        gradient = gradients[0]
        gradient = gradient.masked_fill(gradient.abs() < 1e8 * torch.finfo(gradient.dtype).tiny, 0.0).contiguous()
        value = gradient[scores.text_of(row.long()), column.long()]
        value = value / (1 + score) if ctx.log else value
        d_rows, d_weight, d_bias = entry_gradients(rows, weight, (row, column, value), ctx.needs_input_grad)
        if ctx.spans:
            rows, weight = rows.to(scores.dtype), weight.to(scores.dtype)
        dense = scores.score_gradients(rows, weight, bias, gradient, ctx.spans, log=ctx.log)
        for (start, end), d_scores, column_sum in dense:
            d_bias[start:end] += column_sum
            if d_rows is not None:
                d_rows += d_scores @ weight[start:end]
            if d_weight is not None:
                d_weight[start:end] += d_scores.t() @ rows
        return d_rows, d_weight, d_bias, None, None, None, None


def entry_gradients(
    rows: Tensor, weight: Tensor, entries: Entries, needed: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """Gradients of ``rows``, ``weight`` and ``bias`` if the gradient of ``rows @ weight.T + bias`` is ``entries``."""
    row, column, value = entries
    d_rows = _weighted_sums(row, len(rows), column, value, weight) if needed[0] else None
    d_weight = _weighted_sums(column, len(weight), row, value, rows) if needed[1] else None
    if value.device.type == "cpu":
        d_bias = value.new_zeros(len(weight)).index_add_(0, column.long(), value)
    else:  # index_add_ would add in a different order each time
        ones = value.new_ones(1, 1)
        d_bias = _weighted_sums(column, len(weight), torch.zeros_like(column), value, ones).squeeze(1)
    return d_rows, d_weight, d_bias


def _weighted_sums(group: Tensor, groups: int, source: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
    """``out[g]`` = sum of ``value[k] * vectors[source[k]]`` over the k with ``group[k] = g``, always in one order."""
    order = torch.sort(group, stable=True).indices
    counts = torch.bincount(group, minlength=groups)
    starts = counts.cumsum(0) - counts
    # embedding_bag was faster than torch's CSR product (25-53 ms against 44-82) and exists on every device
    return functional.embedding_bag(
        source.long()[order], vectors.to(value.dtype), starts, mode="sum", per_sample_weights=value[order]
    )


class TokenRows:
    """The tokens of a batch as rows of one matrix, text after text, and pooling of such rows per text.

    On the CPU padding is dropped; pooling is one operation for each run of equally long texts. On other devices, where
    many small operations are slow, the rows include padding, which is masked: all texts have the same length.
    """

    def __init__(self, mask: Tensor, *, drop_padding: bool) -> None:
        """``mask`` ``(texts, tokens)`` marks the tokens that count."""
        self.texts, tokens = mask.shape
        self.mask = mask.bool()
        self._kept = None if drop_padding else self.mask.reshape(-1, 1)
        self.empty = ~self.mask.any(1)
        """Texts without tokens that count, ``(texts,)``."""
        self.lengths = self.mask.sum(1) if drop_padding else torch.full_like(self.empty, tokens, dtype=torch.long)
        """Rows of each text, ``(texts,)``."""
        self.first_rows = self.lengths.cumsum(0) - self.lengths
        """The first row of each text, ``(texts,)``."""
        self._longest = int(self.lengths.max()) if drop_padding and self.texts else tokens
        self._groups: list[tuple[slice, slice, int]] = []
        """Texts, rows and tokens per text of each run of equally long texts."""
        text = row = 0
        for length, run in itertools.groupby(self.lengths.tolist() if drop_padding else [tokens] * self.texts):
            count = len(list(run))
            if length:
                self._groups.append((slice(text, text + count), slice(row, row + count * length), length))
            text, row = text + count, row + count * length
        self._dropped = row < self.mask.numel()
        self._text_of_row = torch.arange(self.texts, device=mask.device).repeat_interleave(
            self.lengths, output_size=row
        )

    def select(self, hidden: Tensor) -> Tensor:
        """The rows ``(rows, hidden)`` of ``hidden`` ``(texts, tokens, hidden)``."""
        return hidden[self.mask] if self._dropped else hidden.reshape(-1, hidden.shape[2])

    def padded(self, rows: Tensor) -> Tensor:
        """``(texts, tokens, hidden)``: a text ends with copies of its last row, which change no maximum."""
        last = (self.lengths[:, None] - 1).clamp(min=0)
        token = torch.arange(self._longest, device=rows.device).minimum(last)
        return rows[(self.first_rows[:, None] + token).clamp(max=len(rows) - 1)]

    def max(self, scores: Tensor) -> Tensor:
        """Maxima ``(texts, columns)`` of ``scores`` ``(rows, columns)``; arbitrary for a text without tokens.

        Scores of padding are set to -inf in place.
        """
        if self._kept is not None:
            scores.masked_fill_(~self._kept, float("-inf"))
        pooled = scores.new_zeros(self.texts, scores.shape[1])
        for texts, rows, tokens in self._groups:
            _max_over_tokens(scores[rows].view(-1, tokens, scores.shape[1]), out=pooled[texts])
        return pooled

    def sum(self, scores: Tensor) -> Tensor:
        """Sums ``(texts, columns)``; padding must be 0."""
        pooled = scores.new_zeros(self.texts, scores.shape[1])
        for texts, rows, tokens in self._groups:
            torch.sum(scores[rows].view(-1, tokens, scores.shape[1]), 1, out=pooled[texts])
        return pooled

    def winners(self, scores: Tensor, text: Tensor, column: Tensor) -> Tensor:
        """The first row with the maximum of each ``text`` in ``column``, after ``max``; all ``(n,)``."""
        if len(text) > _FEW_WINNERS * self.texts * scores.shape[1]:
            tokens = torch.zeros(self.texts, scores.shape[1], dtype=torch.long, device=scores.device)
            for texts, rows, length in self._groups:  # argmax takes three times as long
                tokens[texts] = scores[rows].view(-1, length, scores.shape[1]).max(1).indices
            return self.first_rows[text] + tokens[text, column]
        first = self.first_rows[text]
        tokens = torch.empty_like(first)
        for start in range(0, len(first), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            tokens[chunk] = self.of_texts(scores, text[chunk], column[chunk]).argmax(1)
        return first + tokens

    def of_texts(self, scores: Tensor, text: Tensor, column: Tensor) -> Tensor:
        """The scores of each ``text`` ``(n,)`` in ``column``, after ``max``: ``(n, tokens)``, -inf after its last."""
        length = self.lengths[text, None]
        token = torch.arange(self._longest, device=scores.device)
        text_scores = scores[self.first_rows[text, None] + token.minimum(length - 1), column[:, None]]
        return text_scores.masked_fill_(token >= length, float("-inf"))

    def text_of(self, row: Tensor) -> Tensor:
        """The text that each row belongs to."""
        return self._text_of_row[row]

    def spread(self, gradient: Tensor) -> Tensor:
        """Backward pass of ``sum``: ``(texts, columns)`` to ``(rows, columns)``."""
        spread = gradient[self._text_of_row]
        return spread if self._kept is None else spread * self._kept


def _max_over_tokens(scores: Tensor, out: Tensor) -> Tensor:
    """``scores.amax(1)`` for ``(texts, tokens, columns)``; on the CPU, maxima of runs of tokens first.

    A column is read row by row, and rows are pages apart: more of them than the processor prefetches are slow to read
    (85 rows of 2,048 columns 7 GB/s, runs of 17 rows 24 GB/s). Runs may overlap, which changes no maximum.
    """
    tokens = scores.shape[1]
    runs = tokens // _RUN
    if runs > 1 and scores.device.type == "cpu":
        step = tokens // runs
        scores = scores.unfold(1, tokens - (runs - 1) * step, step).amax(3)
    return torch.amax(scores, 1, out=out)


class TiledScores:
    """``scores = rows @ weight.T + bias``, pooled over the rows of each text to ``(texts, vocabulary)``.

    ``rows`` is ``(rows, hidden)``, ``weight`` ``(vocabulary, hidden)``, ``bias`` ``(vocabulary,)``. Results are float32
    or wider. A text without rows pools to 0.
    """

    def __init__(self, layout: TokenRows, dtype: torch.dtype) -> None:
        """``dtype`` is that of the matrix products."""
        self.layout, self.dtype = layout, dtype

    def pooled(self, rows: Tensor, weight: Tensor, bias: Tensor, pooling: Pooling, *, relu: bool, log: bool) -> Tensor:
        """``max`` or ``sum``, which has ReLU always."""
        if pooling == "max":
            return self.max(rows, weight, bias, relu=relu, log=log)
        return self.sum(rows, weight, bias, log=log)

    def max(self, rows: Tensor, weight: Tensor, bias: Tensor, *, relu: bool, log: bool) -> Tensor:
        """The maxima, after ReLU and log(1 + x) if requested."""
        pooled = self._result(rows, weight)
        for start, end, scores in self._tiles(rows, weight):
            pooled[:, start:end] = activated(self._max_tile(scores, bias[start:end]), relu=relu, log=log)
        return pooled

    def max_and_entries(
        self, rows: Tensor, weight: Tensor, bias: Tensor, *, relu: bool, log: bool
    ) -> tuple[Tensor, Entries]:
        """``max``, and the winning rows with their scores: the positive ones, or all without ReLU."""
        pooled, entries = self._result(rows, weight), [_no_entries(rows)]
        for start, end, scores in self._tiles(rows, weight):
            best = self._max_tile(scores, bias[start:end])
            learning = best > 0 if relu else ~self.layout.empty[:, None].expand_as(best)
            text, column = learning.nonzero(as_tuple=True)
            winners = self.layout.winners(scores, text, column)
            entries.append((winners.int(), column.int() + start, best[text, column]))
            pooled[:, start:end] = best
        return activated(pooled, relu=relu, log=log), _joined(entries)

    def sum(self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool) -> Tensor:
        """Sums of the ReLU of the scores, or of its log(1 + x)."""
        pooled = self._result(rows, weight)
        for start, end, scores in self._tiles(rows, weight):
            pooled[:, start:end] = self._sum_tile(scores, bias[start:end], log=log, keep=False)[0]
        return pooled

    def sum_and_entries(
        self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool
    ) -> tuple[Tensor, Entries, list[Span]]:
        """The sums; the positive scores of tiles where they are few; the columns of the other tiles."""
        pooled, entries, dense = self._result(rows, weight), [_no_entries(rows)], list[Span]()
        for start, end, scores in self._tiles(rows, weight):
            pooled[:, start:end], kept = self._sum_tile(scores, bias[start:end], log=log, keep=True)
            if kept is None:
                dense.append((start, end))
            else:
                entries.append((kept[0].int(), kept[1].int() + start, kept[2]))
        return pooled, _joined(entries), dense

    def text_of(self, row: Tensor) -> Tensor:
        """The text that each row belongs to."""
        return self.layout.text_of(row)

    def score_gradients(
        self, rows: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor, spans: list[Span], *, log: bool
    ) -> Iterator[tuple[Span, Tensor, Tensor]]:
        """For sums with the gradient ``gradient``: spans of columns, the gradient of their scores ``(rows, columns)``
        in ``dtype``, and its sum over the rows. ``rows`` and ``weight`` are given in ``dtype``.
        """
        for start, end in spans:
            scores = (rows @ weight[start:end].t()).to(gradient.dtype).add_(bias[start:end])
            d_scores = self.layout.spread(gradient[:, start:end])
            d_scores = d_scores / (1 + scores.relu()) if log else d_scores
            d_scores = d_scores.where(scores > 0, 0.0)
            yield (start, end), d_scores.to(self.dtype), d_scores.sum(0)

    def _result(self, rows: Tensor, weight: Tensor) -> Tensor:
        return rows.new_empty(self.layout.texts, len(weight), dtype=accumulator(rows))

    def _tiles(self, rows: Tensor, weight: Tensor) -> Iterator[tuple[int, int, Tensor]]:
        """``(start, end, rows @ weight[start:end].T)``; a tile may overwrite the scores of the one before."""
        width = _tile_columns(rows)
        rows = rows.to(self.dtype)
        buffer = rows.new_empty(0 if by_onednn(rows) else len(rows) * min(width, len(weight)))
        for start in range(0, len(weight), width):
            end = min(start + width, len(weight))
            columns = weight[start:end].to(self.dtype)
            if by_onednn(rows):
                yield start, end, product(rows, columns)
            else:
                scores = buffer[: len(rows) * (end - start)].view(len(rows), end - start)
                yield start, end, torch.mm(rows, columns.t(), out=scores)

    def _max_tile(self, scores: Tensor, bias: Tensor) -> Tensor:
        """Maxima ``(texts, columns)`` with bias, 0 for empty texts."""
        best = self.layout.max(scores).to(accumulator(scores))
        return best.add_(bias).masked_fill_(self.layout.empty[:, None], 0.0)

    def _sum_tile(self, scores: Tensor, bias: Tensor, *, log: bool, keep: bool) -> tuple[Tensor, Entries | None]:
        """Sums ``(texts, columns)``, and the positive scores if they are few and ``keep``."""
        scores = scores.to(accumulator(scores))
        best = self._max_tile(scores, bias)
        text, column = (~(best <= 0)).nonzero(as_tuple=True)  # includes NaN
        if len(text) < _FEW_TERMS * best.numel():
            text_scores = (self.layout.of_texts(scores, text, column) + bias[column, None]).relu_()
            pooled = torch.zeros_like(best)
            values = text_scores.log1p() if log else text_scores
            pooled[text, column] = values.sum(1) if keep else values.sum(1, dtype=torch.float64).to(values.dtype)
            entry, token = text_scores.nonzero(as_tuple=True)
            return pooled, (self.layout.first_rows[text[entry]] + token, column[entry], text_scores[entry, token])
        scores = scores.add_(bias)  # -inf at padding
        sample, entries = scores[::16], None
        if keep and torch.count_nonzero(sample > 0) < _SPARSE_BELOW * sample.numel():
            row, column = (scores > 0).nonzero(as_tuple=True)
            entries = (row, column, scores[row, column])
        scores = scores.relu_()
        return self.layout.sum(scores.log1p_() if log else scores), entries


def _tile_columns(rows: Tensor) -> int:
    if rows.device.type != "cpu":
        return _COLUMNS_ON_ACCELERATOR
    if by_onednn(rows):
        return _COLUMNS_OF_ONEDNN
    minimum, maximum = _COLUMNS_ON_CPU
    return min(max(_SCORES_ON_CPU // max(len(rows), 1) // 64 * 64, minimum), maximum)


def activated(scores: Tensor, *, relu: bool, log: bool) -> Tensor:
    """ReLU and log(1 + x) in place, if requested."""
    scores = scores.relu_() if relu else scores
    return scores.log1p_() if log else scores


def _no_entries(rows: Tensor) -> Entries:
    numbers = torch.empty(0, dtype=torch.int32, device=rows.device)
    return numbers, numbers, rows.new_empty(0, dtype=accumulator(rows))


def _joined(parts: Sequence[Entries]) -> Entries:
    row, column, value = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return row, column, value
