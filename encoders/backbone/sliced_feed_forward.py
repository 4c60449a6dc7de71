"""The feed-forward blocks of a model in training on the CPU: in slices of rows that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from encoders.backbone.packed_layers import Layer

_ROWS = 512  # of a slice


class SlicedFeedForward:
    """Of a block ``down(activation(up(rows)))`` autograd would keep what is inside, four times as wide as the rows.

    Here it keeps the rows; the inside is computed again in the backward pass, a slice at a time.
    """

    def __init__(self, layers: Iterable[Layer]) -> None:
        """``layers`` of a model that calls these three modules one after the other, and nothing between them."""
        plain = (layer for layer in layers if type(layer.up) is type(layer.down) is nn.Linear)
        self._blocks = [(layer.up, layer.activation, layer.down) for layer in plain]

    @contextmanager
    def forward(self, input_ids: Tensor) -> Iterator[None]:
        """To be open while the model reads ``input_ids``; without gradients, or not on the CPU, it changes nothing."""
        slices = torch.is_grad_enabled() and input_ids.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        blocks = self._blocks if slices else []
        for up, activation, down in blocks:
            block = _Block(up, activation.forward, down)
            up.forward, activation.forward, down.forward = _as_it_is, _as_it_is, block
        try:
            yield
        finally:
            for module in (module for block in blocks for module in block):
                del module.forward  # now its class's own again


def _as_it_is(values: Tensor) -> Tensor:
    return values


class _Block:
    def __init__(self, up: Any, activation: Callable[[Tensor], Tensor], down: Any) -> None:
        self._up, self._activation, self._down = up, activation, down

    def __call__(self, values: Tensor) -> Tensor:
        """``values`` are ``(..., hidden)``."""
        up, down = self._up, self._down
        rows = values.reshape(-1, values.shape[-1])
        out: Tensor = _InSlices.apply(  # type: ignore[no-untyped-call]
            rows, up.weight, up.bias, down.weight, down.bias, self._activation
        )
        return out.view(values.shape)


class _InSlices(torch.autograd.Function):
    """``down(activation(up(rows)))`` of ``rows`` ``(rows, hidden)``."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        up: Tensor,
        up_bias: Tensor,
        down: Tensor,
        down_bias: Tensor,
        activation: Callable[[Tensor], Tensor],
    ) -> Tensor:
        ctx.save_for_backward(rows, up, up_bias, down)
        ctx.activation = activation
        out = rows.new_empty(len(rows), len(down))
        for read, written in zip(rows.split(_ROWS), out.split(_ROWS), strict=True):
            torch.addmm(down_bias, activation(torch.addmm(up_bias, read, up.t())), down.t(), out=written)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        rows, up, up_bias, down = ctx.saved_tensors
        learns = ctx.needs_input_grad
        d_rows = torch.empty_like(rows)
        d_up, d_up_bias, d_down = (
            torch.zeros_like(tensor) if needed else None
            for tensor, needed in zip((up, up_bias, down), learns[1:4], strict=True)
        )
        gradient = gradient.contiguous()
        for read, above, below in zip(rows.split(_ROWS), gradient.split(_ROWS), d_rows.split(_ROWS), strict=True):
            with torch.enable_grad():
                before = torch.addmm(up_bias, read, up.t()).detach().requires_grad_()
                inside = ctx.activation(before)
            if d_down is not None:
                d_down.addmm_(above.t(), inside.detach())
            (d_before,) = torch.autograd.grad(inside, before, above @ down)
            if d_up is not None:
                d_up.addmm_(d_before.t(), read)
            if d_up_bias is not None:
                d_up_bias += d_before.sum(0)
            torch.mm(d_before, up, out=below)
        return d_rows, d_up, d_up_bias, d_down, gradient.sum(0) if learns[4] else None, None
