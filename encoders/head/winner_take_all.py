"""The winner-take-all layer of UHD-BERT: wide, linear, with fixed random zeros; a token keeps its largest k."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from encoders.head.token_top_k import top_k_per_row
from learned_sparse.core import LearnedSparseError

_ROWS_AT_ONCE = 8192  # of the matrix, where its mask is unpacked


class WinnerTakeAll(nn.Module):
    """``z = E W + b`` (paper, Eq. 2 and 3), where each dimension sees a random subset of its inputs for ever.

    ``weight`` ``(dimensions, hidden)`` is stored dense, 0 where a dimension does not see an input; ``mask`` says so
    with one bit an input, so that both take 1.03 times the matrix. Gradients there are exactly 0: neither Adam nor
    weight decay moves these weights.
    """

    def __init__(self, hidden: int, dimensions: int, weight_sparsity: float, *, initialise: bool = True) -> None:
        """``initialise=False``: all weights are about to be loaded."""
        super().__init__()
        self.seen = _inputs_seen(hidden, weight_sparsity)
        self.weight = nn.Parameter(torch.zeros(dimensions, hidden))
        self.bias = nn.Parameter(torch.zeros(dimensions))
        self.mask: Tensor
        self.register_buffer("mask", torch.zeros(dimensions, -(-hidden // 8), dtype=torch.uint8))
        if initialise:
            self._initialise()

    def forward(self, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The ``k`` winners of each of the ``rows`` ``(r, hidden)``: values ``(r, k)``, largest first, and dimensions.

        Values may be below zero: the paper has no ReLU.
        """
        weight = self.weight
        if torch.is_grad_enabled() and weight.requires_grad:
            weight = _GradientWhereSeen.apply(weight, self.mask)  # type: ignore[no-untyped-call]
        return top_k_per_row(rows, weight, self.bias, k)

    @torch.no_grad()
    def _initialise(self) -> None:
        """As ``nn.Linear``, with the number of inputs that a dimension still sees as its fan-in."""
        bound = 1 / math.sqrt(self.seen)
        nn.init.uniform_(self.bias, -bound, bound)
        for start in range(0, len(self.weight), _ROWS_AT_ONCE):
            weight = self.weight[start : start + _ROWS_AT_ONCE]
            seen = torch.rand_like(weight).topk(self.seen, dim=1, sorted=False).indices
            keep = torch.zeros_like(weight, dtype=torch.bool).scatter_(1, seen, True)
            weight.uniform_(-bound, bound).masked_fill_(~keep, 0.0)
            self.mask[start : start + _ROWS_AT_ONCE] = pack(keep)


def pack(bits: Tensor) -> Tensor:
    """Booleans ``(rows, columns)`` as bytes ``(rows, columns / 8 rounded up)``, the first column in the lowest bit.

    >>> pack(torch.tensor([[True, False, True, False, False, False, False, False, True]])).tolist()
    [[5, 1]]
    """
    whole = nn.functional.pad(bits.to(torch.uint8), (0, -bits.shape[1] % 8)).unflatten(1, (-1, 8))
    packed: Tensor = (whole << _places(bits)).sum(2, dtype=torch.uint8)
    return packed


def unpack(packed: Tensor, columns: int) -> Tensor:
    """The booleans ``(rows, columns)`` that :func:`pack` was given."""
    return ((packed[:, :, None] >> _places(packed)) & 1).flatten(1)[:, :columns].bool()


def _places(like: Tensor) -> Tensor:
    return torch.arange(8, dtype=torch.uint8, device=like.device)


def _inputs_seen(hidden: int, weight_sparsity: float) -> int:
    seen = round(hidden * (1 - weight_sparsity))
    if not (0 <= weight_sparsity < 1 and seen):
        raise LearnedSparseError(f"weight_sparsity {weight_sparsity} leaves no inputs; give a number from 0 to below 1")
    return seen


class _GradientWhereSeen(torch.autograd.Function):
    """The weight itself; its gradient, with exact zeros where no input is seen."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return weight.view_as(weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gradient, (mask,) = gradients[0], ctx.saved_tensors
        kept = torch.empty_like(gradient)
        for start in range(0, len(gradient), _ROWS_AT_ONCE):
            rows = gradient[start : start + _ROWS_AT_ONCE]
            seen = unpack(mask[start : start + _ROWS_AT_ONCE], gradient.shape[1])
            kept[start : start + _ROWS_AT_ONCE] = rows.masked_fill(~seen, 0.0)
        return kept, None
