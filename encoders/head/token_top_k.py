"""The k largest scores of each token, their maximum per text, and the winner-take-all layer of UHD-BERT."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from encoders.head.gradients import entry_gradients
from encoders.head.shares import Shares, first_largest, first_of_each
from learned_sparse.core.errors import LearnedSparseError

# Scores held at once. 256 rows of 30,522 columns took 449 ms where torch.topk over all 2,048 rows took 654 (one thread,
# k = 10; 343 of them are the product alone), and 41 MB where it took 258. Half and twice as many rows were slower.
_BLOCK_ON_CPU = 8 * 1024**2
_BLOCK_ON_ACCELERATOR = 256 * 1024**2
_GROUP = 32  # columns; 16 and 64 were slower
_MASK_ROWS = 8192  # rows of a winner-take-all matrix whose mask is unpacked at once


def top_k_per_row(rows: Tensor, weight: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest of each row of ``rows @ weight.T + bias``: values ``(r, k)``, at least float32, and columns.

    ``rows`` is ``(r, hidden)``, ``weight`` ``(n, hidden)``, ``bias`` ``(n,)``. Values are in descending order; equal
    values in ascending order of columns. Gradients flow through these ``k`` only. Raises ``ValueError`` if ``k > n``.
    """
    if not 0 < k <= len(weight):
        raise ValueError(f"k is {k}; give 1 to {len(weight)}, the number of columns")
    device = rows.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else rows.dtype
    with torch.autocast(device, enabled=False):
        if torch.is_grad_enabled() and (rows.requires_grad or weight.requires_grad or bias.requires_grad):
            return _TopKPerRow.apply(rows, weight, bias, k, dtype)  # type: ignore[no-untyped-call, no-any-return]
        return _search(rows, weight, bias, k, dtype)


def max_pool_entries(values: Tensor, columns: Tensor, texts_of_rows: Tensor, texts: int, n: int) -> Tensor:
    """``(texts, n)``: the maximum of each text's entries in each column; 0 without entries or if none is positive.

    ``values`` and ``columns`` are ``(r, k)``; ``texts_of_rows`` ``(r,)`` is the text of each row. The gradient goes to
    the entry with the maximum, the first of equal ones.
    """
    cell = (texts_of_rows[:, None] * n + columns).flatten()
    value = values.flatten()
    with torch.no_grad():
        pooled = value.new_zeros(texts * n).scatter_reduce_(0, cell, value, "amax")
    if torch.is_grad_enabled() and values.requires_grad:
        largest = ((value > 0) & (value == pooled[cell])).nonzero().squeeze(1)
        first = largest[first_of_each(cell[largest])]
        pooled = value.new_zeros(texts * n).scatter(0, cell[first], value[first])
    return pooled.view(texts, n)


def largest_shares(values: Tensor, top_columns: Tensor, tokens: Tensor, columns: Tensor) -> Shares:
    """Shares for ``max_pool_entries``: ``values`` and their ``top_columns`` are ``(rows, k)``.

    ``tokens`` ``(rows,)`` is the position of each row in the text. Of equal values the first token has the share.
    """
    token = tokens[:, None].expand_as(top_columns).flatten()
    value, column = values.flatten(), top_columns.flatten()
    kept = (value > 0) & torch.isin(column, columns)
    return first_largest(token[kept], column[kept], value[kept])


def keep_largest(weights: Tensor, k: int) -> Tensor:
    """``weights`` ``(batch, n)`` with all but the ``k`` largest of each row set to 0; of equal ones, the first stay.

    >>> keep_largest(torch.tensor([[0.5, 2.0, 0.5, 1.0]]), 3).tolist()
    [[0.5, 2.0, 0.0, 1.0]]
    """
    n = weights.shape[1]
    with torch.no_grad():
        padded = functional.pad(weights, (0, -n % _GROUP), value=float("-inf"))
        columns = _largest(padded, n, min(k, n))[1]
    return torch.zeros_like(weights).scatter(1, columns, weights.gather(1, columns))


def _search(rows: Tensor, weight: Tensor, bias: Tensor, k: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Search block by block of rows, in one reused buffer whose width is a multiple of ``_GROUP``."""
    n, result = len(weight), torch.promote_types(dtype, bias.dtype)
    values = torch.empty(len(rows), k, dtype=torch.promote_types(rows.dtype, torch.float32), device=rows.device)
    columns = torch.empty(len(rows), k, dtype=torch.long, device=rows.device)
    width = -(-n // _GROUP) * _GROUP
    block = _BLOCK_ON_CPU if rows.device.type == "cpu" else _BLOCK_ON_ACCELERATOR
    height = min(max(block // width, 1), len(rows))
    buffer = torch.full((height, width), float("-inf"), dtype=result, device=rows.device)
    product = buffer if dtype == result else torch.empty_like(buffer, dtype=dtype)
    decoder = weight.to(dtype).t()
    for start in range(0, len(rows), max(height, 1)):
        block_rows = rows[start : start + height].to(dtype)
        padded = buffer[: len(block_rows)]
        torch.add(torch.mm(block_rows, decoder, out=product[: len(block_rows), :n]), bias, out=padded[:, :n])
        values[start : start + height], columns[start : start + height] = _largest(padded, n, k)
    return values, columns


def _largest(padded: Tensor, n: int, k: int) -> tuple[Tensor, Tensor]:
    """The ``k`` largest of each row; a further one shows where equal values lie on both sides of the cut.

    A group is every ``width / 32``-th column, so that its maximum is taken along whole rows. Most rows are tied in
    bf16, which has few distinct values.
    """
    folded = padded.view(len(padded), _GROUP, -1)
    maxima = folded.amax(1)
    values, columns = _unordered(folded, maxima, min(k + 1, n))
    if n > k:
        tied = (values[:, k - 1] == values[:, k]).nonzero()
        values, columns = values[:, :k], columns[:, :k]
        if len(tied):
            lowest = _lowest_columns(folded, maxima, tied, values[tied[:, 0], k - 1 :], k)
            columns[tied[:, 0]], values[tied[:, 0]] = lowest, padded[tied, lowest]
    columns, order = columns.sort(dim=1)
    values, best = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, columns.gather(1, best)


def _unordered(folded: Tensor, maxima: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """``torch.topk`` over the groups with the ``count`` largest maxima, which contain the ``count`` largest values."""
    groups = maxima.shape[1]
    if groups <= 2 * count:
        return folded.flatten(1).topk(count)
    best = maxima.topk(count, sorted=False).indices
    candidates = folded.gather(2, best[:, None, :].expand(-1, _GROUP, -1)).flatten(1)
    values, index = candidates.topk(count)
    return values, index // count * groups + best.gather(1, index % count)


def _lowest_columns(folded: Tensor, maxima: Tensor, tied: Tensor, border: Tensor, k: int) -> Tensor:
    """Columns ``(r, k)`` of the k largest scores of the rows ``tied`` ``(r, 1)``, the first of equal ones.

    ``border`` ``(r, 1)`` is the k-th largest score. Only groups whose maximum reaches it are searched.
    """
    reaching = maxima[tied[:, 0]] >= border
    most = int(reaching.sum(1).max())
    chosen = reaching.int().topk(most, sorted=False).indices.sort(1).values  # so that columns ascend
    lines = torch.arange(_GROUP, device=folded.device)[:, None]
    scores = folded[tied[:, :, None], lines, chosen[:, None, :]].flatten(1)
    above, level = scores > border, scores == border
    missing = k - above.sum(1, keepdim=True)
    place = (above | (level & (level.cumsum(1) <= missing))).nonzero()[:, 1].view(len(tied), k)
    return place // most * maxima.shape[1] + chosen.gather(1, place % most)


class _TopKPerRow(torch.autograd.Function):
    """Saves which columns won; the backward pass touches only these."""

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
        rows, weight, _, columns = ctx.saved_tensors
        row, rank = gradients[0].nonzero(as_tuple=True)
        entries = (row, columns[row, rank], gradients[0][row, rank])
        return *entry_gradients(rows, weight, entries, ctx.needs_input_grad), None, None


class WinnerTakeAll(nn.Module):
    """``z = E W + b`` (Jang et al., UHD-BERT, Eq. 2 and 3); each dimension sees a fixed random subset of its inputs.

    ``weight`` ``(dimensions, hidden)`` is dense, with 0 where a dimension does not see an input; ``mask`` has one bit
    per input. Gradients of unseen inputs are exactly 0, so neither Adam nor weight decay changes these weights.
    """

    @torch.no_grad()
    def __init__(self, hidden: int, dimensions: int, weight_sparsity: float) -> None:
        """Initialise as ``nn.Linear`` does; the fan-in is the number of inputs that a dimension sees."""
        super().__init__()
        inputs = round(hidden * (1 - weight_sparsity))
        if not (0 <= weight_sparsity < 1 and inputs):
            raise LearnedSparseError(f"weight_sparsity {weight_sparsity} leaves no inputs; give a number in [0, 1)")
        self.weight = nn.Parameter(torch.zeros(dimensions, hidden))
        self.bias = nn.Parameter(torch.zeros(dimensions))
        self.mask: Tensor
        self.register_buffer("mask", torch.zeros(dimensions, -(-hidden // 8), dtype=torch.uint8))
        bound = 1 / math.sqrt(inputs)
        nn.init.uniform_(self.bias, -bound, bound)
        for weight, mask in zip(self.weight.split(_MASK_ROWS), self.mask.split(_MASK_ROWS), strict=True):
            seen = torch.rand_like(weight).topk(inputs, dim=1, sorted=False).indices
            keep = torch.zeros_like(weight, dtype=torch.bool).scatter_(1, seen, True)
            weight.uniform_(-bound, bound).masked_fill_(~keep, 0.0)
            bits = functional.pad(keep, (0, -hidden % 8)).view(len(keep), -1, 8)
            mask.copy_((bits * 2 ** torch.arange(8)).sum(2))

    def forward(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The ``k`` winners of each of the ``rows`` ``(r, hidden)``: values ``(r, k)``, descending, and dimensions.

        Values may be negative: the paper has no ReLU.
        """
        weight: Tensor = self.weight
        if torch.is_grad_enabled() and weight.requires_grad:
            weight = weight.view_as(weight)
            weight.register_hook(self._where_seen)
        return top_k_per_row(rows, weight, self.bias, k)

    def _where_seen(self, gradient: Tensor) -> Tensor:
        kept = torch.empty_like(gradient)
        for part, rows, mask in zip(*(each.split(_MASK_ROWS) for each in (kept, gradient, self.mask)), strict=True):
            part.copy_(rows.where(unpack(mask, rows.shape[1]), 0.0))
        return kept


def unpack(packed: Tensor, columns: int) -> Tensor:
    """Booleans ``(rows, columns)`` of bytes ``(rows, ceil(columns / 8))``; the first column is the lowest bit.

    >>> unpack(torch.tensor([[5, 1]], dtype=torch.uint8), 9).int().tolist()
    [[1, 0, 1, 0, 0, 0, 0, 0, 1]]
    """
    bits = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return ((packed[:, :, None] >> bits) & 1).flatten(1)[:, :columns].bool()
