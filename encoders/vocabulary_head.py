"""Hidden states to pooled vocabulary weights, without ever holding (batch, tokens, vocabulary)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from encoders.token_layout import Layout, lay_out

Pooling = Literal["sum", "max"]
Saturation = Literal["log", "none"]

_TILE_ON_CPU = 2048  # columns; a tile then stays near the caches (GEMM 160-190 GF/s against 112 into one fresh tensor)
_TILE_ON_ACCELERATOR = 8192
_SPARSE_BELOW = 0.05  # share of positive scores in a tile under which its entries are kept instead of computed again


def pool(
    hidden: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    pooling: Pooling,
    saturation: Saturation = "none",
    relu: bool = True,
) -> Tensor:
    """Pooled weights ``(batch, vocabulary)``, at least float32, of ``scores = hidden @ weight.T + bias``.

    ``hidden`` is ``(batch, tokens, hidden)``, ``mask`` ``(batch, tokens)`` is non-zero at the positions that count,
    ``weight`` is ``(vocabulary, hidden)`` and ``bias`` ``(vocabulary,)``. Sum: ``sum_i f(relu(score_i))``; max:
    ``f(relu(max_i score_i))``; ``f`` is log(1 + x) or the identity. A text with no position that counts pools to 0.
    ``relu=False`` (max only, no saturation) keeps negative maxima.
    """
    if not relu and (pooling != "max" or saturation != "none"):
        raise ValueError("relu=False is for max pooling without saturation")
    layout, rows, lengths = lay_out(hidden, mask)
    dtype = compute_dtype(hidden)
    with torch.autocast(hidden.device.type, enabled=False):
        if pooling == "sum":
            return _sum(rows, weight, bias, layout, saturation, dtype)
        pooled = _max(rows, weight, layout, dtype) + bias.to(accumulator(hidden))
        pooled = pooled.where((lengths > 0)[:, None], 0.0)
        if relu:
            pooled = pooled.relu()
        return pooled.log1p() if saturation == "log" else pooled


def pool_columns(
    hidden: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor,
    columns: Tensor,
    *,
    pooling: Pooling,
    saturation: Saturation,
) -> Tensor:
    """As :func:`pool`, computing only the vocabulary ids ``columns`` (no repeats); the others are 0."""
    if 2 * len(columns) > len(weight):
        keep = torch.zeros(len(weight), dtype=torch.bool, device=weight.device).index_fill_(0, columns, True)
        return pool(hidden, mask, weight, bias, pooling=pooling, saturation=saturation).where(keep, 0.0)
    some = pool(
        hidden, mask, functional.embedding(columns, weight), bias[columns], pooling=pooling, saturation=saturation
    )
    return some.new_zeros(len(some), len(weight)).index_copy(1, columns, some)


def lexical_pool(
    hidden: Tensor,
    input_ids: Tensor,
    mask: Tensor,
    literal: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    pooling: Pooling,
    saturation: Saturation,
) -> Tensor:
    """As :func:`pool`, for the tokens of each text itself: ``(tokens, tokens)`` scores a text; all other weights are 0.

    ``literal`` ``(batch, tokens)`` says which positions stand in the text's bag of words.
    """
    wide = accumulator(hidden)
    own_weight, own_bias = functional.embedding(input_ids, weight), bias[input_ids].to(wide)
    scores = torch.matmul(hidden, own_weight.to(hidden.dtype).transpose(1, 2)).to(wide) + own_bias[:, None, :]
    scores = scores.relu().masked_fill(
        ~mask.bool()[:, :, None], 0.0
    )  # after ReLU, 0 changes neither a sum nor a maximum
    if saturation == "log":
        scores = scores.log1p()
    pooled = scores.sum(1) if pooling == "sum" else scores.amax(1)
    pooled = pooled.masked_fill(~first_occurrences(input_ids, literal.bool()), 0.0)
    return pooled.new_zeros(len(pooled), len(weight)).scatter_add(1, input_ids, pooled)


def first_occurrences(input_ids: Tensor, literal: Tensor) -> Tensor:
    """True at the first of each text's ``literal`` positions that hold the same token; all ``(batch, tokens)``."""
    same = (input_ids[:, :, None] == input_ids[:, None, :]) & literal[:, None, :]
    return literal & ~same.tril(diagonal=-1).any(2)


def accumulator(tensor: Tensor) -> torch.dtype:
    """What results are held in: float32 or wider."""
    return torch.promote_types(tensor.dtype, torch.float32)


def compute_dtype(hidden: Tensor) -> torch.dtype:
    """What matrix products are computed in: autocast's choice, or the tensor's own."""
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


def _max(rows: Tensor, weight: Tensor, layout: Layout, dtype: torch.dtype) -> Tensor:
    if torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad):
        return _MaxOverTokens.apply(rows, weight, layout, dtype)  # type: ignore[no-untyped-call, no-any-return]
    pooled = rows.new_empty(layout.texts, len(weight), dtype=accumulator(rows))
    for start, end, scores in _tiles(rows, weight, dtype):
        pooled[:, start:end] = layout.max(scores)
    return pooled


def _sum(
    rows: Tensor, weight: Tensor, bias: Tensor, layout: Layout, saturation: Saturation, dtype: torch.dtype
) -> Tensor:
    if torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad or bias.requires_grad):
        return _SumOverTokens.apply(rows, weight, bias, layout, saturation, dtype)  # type: ignore[no-untyped-call, no-any-return]
    pooled = rows.new_empty(layout.texts, len(weight), dtype=accumulator(rows))
    for start, end, scores in _tiles(rows, weight, dtype):
        pooled[:, start:end] = _sum_tile(scores, bias[start:end], layout, saturation, keep=False)[0]
    return pooled


def _tiles(rows: Tensor, weight: Tensor, dtype: torch.dtype) -> Iterator[tuple[int, int, Tensor]]:
    """``(start, end, rows @ weight[start:end].T)`` in ``dtype``; each tile overwrites the scores of the one before."""
    width = _TILE_ON_CPU if rows.device.type == "cpu" else _TILE_ON_ACCELERATOR
    rows = rows.to(dtype)
    buffer = rows.new_empty(len(rows) * min(width, len(weight)))
    for start in range(0, len(weight), width):
        end = min(start + width, len(weight))
        scores = buffer[: len(rows) * (end - start)].view(len(rows), end - start)
        yield start, end, torch.mm(rows, weight[start:end].to(dtype).t(), out=scores)


Entries = tuple[Tensor, Tensor, Tensor]  # row, column, value: the non-zero entries of a (rows, vocabulary) matrix


def _sum_tile(
    scores: Tensor, bias: Tensor, layout: Layout, saturation: Saturation, *, keep: bool
) -> tuple[Tensor, Entries | None]:
    """Pooled ``(batch, columns)``, and the positive scores if they are few and ``keep``: all a backward pass needs."""
    scores = scores.to(accumulator(scores)).add_(bias)
    sample, entries = scores[::16], None
    ordered = _adds_in_order(scores)
    if (keep or ordered) and torch.count_nonzero(sample > 0) < _SPARSE_BELOW * sample.numel():
        row, column = layout.counted(scores > 0).nonzero(as_tuple=True)
        value = scores[row, column]
        entries = (row, column, value)
        if ordered:
            place = layout.text_of(row) * scores.shape[1] + column
            pooled = scores.new_zeros(layout.texts * scores.shape[1])
            pooled.index_add_(0, place, value.log1p() if saturation == "log" else value)
            return pooled.view(layout.texts, -1), entries
    scores = scores.relu_()
    return layout.sum(scores.log1p_() if saturation == "log" else scores), entries


def _adds_in_order(tensor: Tensor) -> bool:
    """Whether ``index_add_`` gives the same bits every time; elsewhere it adds atomically, in any order."""
    return tensor.device.type == "cpu"


class _MaxOverTokens(torch.autograd.Function):
    """Maximum over each text's rows; the backward pass touches only the winning rows, one per text and term."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, layout: Layout, dtype: torch.dtype) -> Tensor:
        pooled = rows.new_empty(layout.texts, len(weight), dtype=accumulator(rows))
        winner = torch.empty(layout.texts, len(weight), dtype=torch.int32, device=rows.device)
        for start, end, scores in _tiles(rows, weight, dtype):
            pooled[:, start:end], winner[:, start:end] = layout.max_with_row(scores)
        ctx.save_for_backward(rows, weight, winner)
        return pooled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        rows, weight, winner = ctx.saved_tensors
        text, column = gradients[0].nonzero(as_tuple=True)
        entries = (winner[text, column], column, gradients[0][text, column])
        return *entry_gradients(rows, weight, entries, ctx.needs_input_grad), None, None


class _SumOverTokens(torch.autograd.Function):
    """Sum of (saturated) ReLU scores over each text's rows.

    ReLU makes the scores sparse: tiles with few positive ones keep just those, the others are computed again in the
    backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, layout: Layout, saturation: Saturation, dtype: torch.dtype
    ) -> Tensor:
        pooled = rows.new_empty(layout.texts, len(weight), dtype=accumulator(rows))
        kept: list[Tensor] = []
        ctx.dense = []
        for start, end, scores in _tiles(rows, weight, dtype):
            pooled[:, start:end], entries = _sum_tile(scores, bias[start:end], layout, saturation, keep=True)
            if entries is None:
                ctx.dense.append((start, end))
            else:
                kept += (entries[0].int(), entries[1].int() + start, entries[2])
        ctx.save_for_backward(rows, weight, bias, *kept)
        ctx.layout, ctx.saturation, ctx.dtype = layout, saturation, dtype
        return pooled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient = gradients[0]
        rows, weight, bias, *kept = ctx.saved_tensors
        empty = (torch.empty(0, dtype=torch.int32, device=rows.device),) * 2 + (gradient.new_empty(0),)
        row, column, score = (torch.cat(parts) for parts in ((kept[i::3] or [empty[i]]) for i in range(3)))
        value = gradient[ctx.layout.text_of(row.long()), column.long()]
        value = value / (1 + score) if ctx.saturation == "log" else value
        d_rows, d_weight = entry_gradients(rows, weight, (row, column, value), ctx.needs_input_grad)
        d_bias = torch.zeros_like(bias, dtype=gradient.dtype).index_add_(0, column.long(), value)
        for start, end in ctx.dense:
            tile = weight[start:end].to(ctx.dtype)
            scores = (rows.to(ctx.dtype) @ tile.t()).to(gradient.dtype).add_(bias[start:end])
            d_scores = ctx.layout.spread(gradient[:, start:end])
            d_scores = d_scores / (1 + scores.relu()) if ctx.saturation == "log" else d_scores
            d_scores = d_scores.where(scores > 0, 0.0)
            d_bias[start:end] += d_scores.sum(0)
            d_scores = d_scores.to(ctx.dtype)
            if d_rows is not None:
                d_rows += d_scores @ tile
            if d_weight is not None:
                d_weight[start:end] += d_scores.t() @ rows.to(ctx.dtype)
        return d_rows, d_weight, d_bias, None, None, None


def entry_gradients(
    rows: Tensor, weight: Tensor, entries: Entries, needed: tuple[bool, ...]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of ``rows`` and ``weight`` where the gradient of ``rows @ weight.T`` has just these entries."""
    row, column, value = entries
    d_rows = _weighted_sums(row, len(rows), column, value, weight) if needed[0] else None
    d_weight = _weighted_sums(column, len(weight), row, value, rows) if needed[1] else None
    return d_rows, d_weight


def _weighted_sums(group: Tensor, groups: int, source: Tensor, value: Tensor, vectors: Tensor) -> Tensor:
    """``out[g]`` = sum of ``value[k] * vectors[source[k]]`` over the k with ``group[k] = g``: sparse times dense."""
    order = torch.sort(group, stable=True).indices
    counts = torch.bincount(group, minlength=groups)
    starts = counts.cumsum(0) - counts
    # embedding_bag was faster here than torch's CSR product (25-53 ms against 44-82), and exists on every device
    return functional.embedding_bag(
        source.long()[order], vectors.to(value.dtype), starts, mode="sum", per_sample_weights=value[order]
    )
