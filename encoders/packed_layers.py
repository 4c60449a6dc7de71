"""Transformer layers over the tokens of all texts as one matrix: no row of it is padding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.activations import GELUActivation

_BLOCK = 128  # rows
_SHORT = 16  # tokens; up to here texts of one length go together, for a product of its own costs a text more than work


@dataclass(frozen=True)
class Layer:
    """The parts of one post-norm layer, wherever its model keeps them."""

    query: nn.Module
    key: nn.Module
    value: nn.Module
    out: nn.Module
    attention_norm: nn.Module
    up: nn.Module
    activation: nn.Module
    down: nn.Module
    output_norm: nn.Module
    heads: int
    inner: int
    """Columns between ``up`` and ``down``."""


class Workspace:
    """Room for what a layer computes, used again by every layer of every batch: fresh memory is slow to write to."""

    def __init__(self) -> None:
        self._room = torch.empty(0)

    def matrices(self, like: Tensor, *shapes: tuple[int, ...]) -> list[Tensor]:
        """Tensors of these shapes with anything in them, side by side; they are good until the next call."""
        sizes = [torch.Size(shape).numel() for shape in shapes]
        if self._room.dtype != like.dtype or self._room.numel() < sum(sizes):
            with torch.inference_mode(False):  # else it could not be written to outside that mode
                self._room = torch.empty(sum(sizes), dtype=like.dtype)
        parts = self._room[: sum(sizes)].split(sizes)
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def run_layer(layer: Layer, rows: Tensor, lengths: Sequence[int], workspace: Workspace) -> Tensor:
    """The states ``(rows, hidden)`` after ``layer``; texts of these ``lengths`` follow each other. ``rows`` is lost."""
    attended = _attention(layer, rows, lengths, workspace)
    rows = layer.attention_norm(_add_linear(rows, layer.out, attended))
    inner = activated(layer.up, layer.activation, rows, layer.inner, workspace)
    normed: Tensor = layer.output_norm(_add_linear(rows, layer.down, inner))
    return normed


def activated(linear: nn.Module, activation: nn.Module, rows: Tensor, width: int, workspace: Workspace) -> Tensor:
    """``activation(linear(rows))``, ``(rows, width)``; good until the workspace is used again.

    GELU is given whole blocks of rows, the last ones with anything in them: torch keeps what it compiled for each
    shape, and that lay between the large blocks of memory of all later batches (150 MB after 640 passages).
    """
    count = len(rows)
    (values,) = workspace.matrices(rows, (-(-count // _BLOCK) * _BLOCK, width))
    _linear(linear, rows, values[:count])
    if isinstance(activation, GELUActivation):
        torch.ops.aten.gelu_(values)
        return values[:count]
    found: Tensor = activation(values[:count])
    return found


def _linear(linear: Any, rows: Tensor, out: Tensor, *, bias: bool = True) -> Tensor:
    """``linear(rows)``, into ``out`` where ``linear`` is plain (a quantised one makes its own)."""
    if type(linear) is not nn.Linear:
        return out.copy_(linear(rows))
    torch.mm(rows, linear.weight.t(), out=out)
    # added after the product: a product that starts from the bias took longer (19.7 ms against 18.9)
    return out.add_(linear.bias) if bias else out


def _add_linear(rows: Tensor, linear: Any, values: Tensor) -> Tensor:
    """``rows + linear(values)`` in place: the product is added while it is made."""
    if type(linear) is not nn.Linear:
        return rows.add_(linear(values))
    return rows.addmm_(values, linear.weight.t()).add_(linear.bias)


def _attention(layer: Layer, rows: Tensor, lengths: Sequence[int], workspace: Workspace) -> Tensor:
    count, hidden = rows.shape
    longest = max(lengths)
    wide, attended, scores, some = workspace.matrices(
        rows, (count, 3 * hidden), (count, hidden), (layer.heads * longest * longest,), (longest * hidden,)
    )
    for linear, out in zip((layer.query, layer.key, layer.value), wide.split(hidden, dim=1), strict=True):
        # a key's bias adds the same to all scores of a query, which the softmax takes away again
        _linear(linear, rows, out, bias=linear is not layer.key)
    start = 0
    for length, run in itertools.groupby(lengths):
        texts = len(list(run))
        end = start + texts * length
        block = wide[start:end].view(texts, length, 3, layer.heads, -1).permute(2, 0, 3, 1, 4)
        into = attended[start:end].view(texts, length, layer.heads, -1).transpose(1, 2)
        if length <= _SHORT or rows.dtype != torch.float32:
            into.copy_(functional.scaled_dot_product_attention(*block))
        else:
            _attend_each(block, into, scores, some)
        start = end
    return attended


def _attend_each(block: Tensor, into: Tensor, scores: Tensor, some: Tensor) -> None:
    """Attention text by text into ``into`` ``(texts, heads, tokens, size)``; ``block`` has queries, keys and values.

    A text's scores stay in the cache, and its queries, keys and values are read where the linear layers left them. One
    thread took 8.6 ms for 27 texts of 75 tokens (12 heads of 32), torch's fused attention 11.8.
    """
    _, texts, heads, tokens, size = block.shape
    scores, some = scores[: heads * tokens**2].view(heads, tokens, tokens), some[: heads * tokens * size]
    context = some.view(heads, tokens, size)
    for text in range(texts):
        query, key, value = block[:, text]
        torch.baddbmm(scores, query, key.transpose(1, 2), beta=0, alpha=size**-0.5, out=scores)
        torch.softmax(scores, -1, out=scores)
        into[text] = torch.bmm(scores, value, out=context)
