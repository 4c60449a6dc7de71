"""The largest scores of each token, found without ever holding (tokens, columns), and their maximum per text."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from encoders.head.sparse_gradients import column_sums, entry_gradients
from encoders.head.tiled_scores import accumulator, compute_dtype

# Scores held at once. 256 rows of 30,522 columns took 449 ms where torch.topk over all 2,048 rows took 654 (one thread,
# k = 10; 343 of them are the product alone), and 41 MB where it took 258. Half and twice as many rows were slower.
_BLOCK_ON_CPU = 8 * 1024**2
_BLOCK_ON_ACCELERATOR = 256 * 1024**2
_GROUP = 32  # columns; 16 and 64 were slower


def top_k_per_row(rows: Tensor, weight: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest of each row of ``rows @ weight.T + bias``: values ``(r, k)``, at least float32, and columns.

    ``rows`` is ``(r, hidden)``, ``weight`` ``(n, hidden)``, ``bias`` ``(n,)``; largest values come first, of equal ones
    the lower column is taken first. Gradients flow through these ``k`` alone. ``k`` above ``n`` is a ``ValueError``.
    """
    if not 0 < k <= len(weight):
        raise ValueError(f"k is {k}; give 1 to {len(weight)}, the number of columns")
    dtype = compute_dtype(rows)
    with torch.autocast(rows.device.type, enabled=False):
        if torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad or bias.requires_grad):
            return _TopKPerRow.apply(rows, weight, bias, k, dtype)  # type: ignore[no-untyped-call, no-any-return]
        return _search(rows, weight, bias, k, dtype)


def max_pool_entries(values: Tensor, columns: Tensor, texts_of_rows: Tensor, texts: int, n: int) -> Tensor:
    """``(texts, n)``: the maximum over each text's entries in a column, and 0 where it has none or none above 0.

    ``values`` and ``columns`` are ``(r, k)``, ``texts_of_rows`` ``(r,)`` is the text of each row. The gradient goes to
    the entry that gave the maximum; of equal ones to the first.
    """
    place = (texts_of_rows[:, None] * n + columns).flatten()
    value = values.flatten()
    with torch.no_grad():
        pooled = value.new_zeros(texts * n).scatter_reduce_(0, place, value, "amax")
    if torch.is_grad_enabled() and values.requires_grad:
        first = _first_of_each(place, (value > 0) & (value == pooled[place]))
        pooled = value.new_zeros(texts * n).scatter(0, place[first], value[first])
    return pooled.view(texts, n)


def keep_largest(weights: Tensor, k: int) -> Tensor:
    """``weights`` ``(batch, n)`` with 0 for all but each row's ``k`` largest; of equal ones the lower columns stay.

    >>> keep_largest(torch.tensor([[0.5, 2.0, 0.5, 1.0]]), 3).tolist()
    [[0.5, 2.0, 0.0, 1.0]]
    """
    with torch.no_grad():
        padded = functional.pad(weights, (0, -weights.shape[1] % _GROUP), value=float("-inf"))
        columns = _largest(padded, weights.shape[1], k)[1]
    return torch.zeros_like(weights).scatter(1, columns, weights.gather(1, columns))


def _first_of_each(place: Tensor, chosen: Tensor) -> Tensor:
    """The first of the ``chosen`` entries at each place."""
    entry = chosen.nonzero().squeeze(1)
    ordered, order = torch.sort(place[entry], stable=True)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    return entry[order[starts]]


def _search(rows: Tensor, weight: Tensor, bias: Tensor, k: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Block by block of rows, into one reused buffer whose width is made a multiple of the group's."""
    result, n = accumulator(rows), len(weight)
    values = torch.empty(len(rows), k, dtype=result, device=rows.device)
    columns = torch.empty(len(rows), k, dtype=torch.long, device=rows.device)
    width = -(-n // _GROUP) * _GROUP
    block = _BLOCK_ON_CPU if rows.device.type == "cpu" else _BLOCK_ON_ACCELERATOR
    height = min(max(block // width, 1), len(rows))
    buffer = torch.full((height, width), float("-inf"), dtype=result, device=rows.device)
    product = buffer if dtype == result else torch.empty_like(buffer, dtype=dtype)
    decoder = weight.to(dtype).t()
    for start in range(0, len(rows), max(height, 1)):
        some = rows[start : start + height].to(dtype)
        padded = buffer[: len(some)]
        scores = padded[:, :n]
        torch.add(torch.mm(some, decoder, out=product[: len(some), :n]), bias, out=scores)
        values[start : start + height], columns[start : start + height] = _largest(padded, n, k)
    return values, columns


def _largest(padded: Tensor, n: int, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest of each row; one more is looked up, to see where equal values straddle the border."""
    values, columns = _unordered(padded, min(k + 1, n))
    if n > k:
        tied = (values[:, k - 1] == values[:, k]).nonzero().squeeze(1)
        values, columns = values[:, :k], columns[:, :k]
        if len(tied):
            lowest = _lowest_columns(padded[tied, :n], values[tied, k - 1 :], k)
            columns[tied], values[tied] = lowest, padded[tied].gather(1, lowest)
    columns, order = columns.sort(dim=1)
    values, best = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, columns.gather(1, best)


def _unordered(padded: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``torch.topk`` over the groups that can hold the ``count`` largest: those with the ``count`` largest maxima.

    A group is every ``width / 32``-th column, so that its maximum is taken along whole rows.
    """
    groups = padded.shape[1] // _GROUP
    if groups <= 2 * count:
        return padded.topk(count)
    folded = padded.view(len(padded), _GROUP, groups)
    best = folded.amax(1).topk(count, sorted=False).indices
    candidates = folded.gather(2, best[:, None, :].expand(-1, _GROUP, -1)).flatten(1)
    values, place = candidates.topk(count)
    return values, place // count * groups + best.gather(1, place % count)


def _lowest_columns(scores: Tensor, border: Tensor, k: int) -> Tensor:
    """Columns ``(r, k)`` of all scores above each row's ``border`` ``(r, 1)``, and of the first ones equal to it."""
    above, level = scores > border, scores == border
    room = k - above.sum(1, keepdim=True)
    return (above | (level & (level.cumsum(1) <= room))).nonzero()[:, 1].view(len(scores), k)


class _TopKPerRow(torch.autograd.Function):
    """Keeps which columns won; the backward pass touches only these."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, k: int, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        values, columns = _search(rows, weight, bias, k, dtype)
        ctx.save_for_backward(rows, weight, bias, columns)
        ctx.mark_non_differentiable(columns)
        return values, columns

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        rows, weight, bias, columns = ctx.saved_tensors
        row, place = gradients[0].nonzero(as_tuple=True)
        column, value = columns[row, place], gradients[0][row, place]
        d_bias = column_sums(column, len(bias), value)
        return *entry_gradients(rows, weight, (row, column, value), ctx.needs_input_grad), d_bias, None, None
