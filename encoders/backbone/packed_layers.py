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
        """Tensors of these shapes with anything in them, side by side; the next call gives the same room again."""
        sizes = [torch.Size(shape).numel() for shape in shapes]
        self.reserve(like, sum(sizes))
        parts = self._room[: sum(sizes)].split(sizes)
        return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]

    def reserve(self, like: Tensor, numbers: int) -> None:
        """Make room for so many ``numbers``: until more are asked for, the tensors given out share one room."""
        if self._room.dtype != like.dtype or self._room.numel() < numbers:
            with torch.inference_mode(False):  # else it could not be written to outside that mode
                self._room = torch.empty(numbers, dtype=like.dtype)


class Layers:
    """The layers of a model for the texts of one batch, which follow each other as the rows of one matrix."""

    def __init__(self, layers: Sequence[Layer], rows: Tensor, lengths: Sequence[int], workspace: Workspace) -> None:
        """``rows`` ``(rows, hidden)`` are like those the layers will be given; ``lengths`` are the texts' tokens."""
        self._layers, self._workspace = layers, workspace
        count, hidden = rows.shape
        longest, heads = max(lengths), layers[0].heads
        shapes = *[(count, hidden)] * 3, (hidden, count), (heads * longest**2,), (longest * hidden,)
        room = sum(torch.Size(shape).numel() for shape in shapes)
        workspace.reserve(rows, max(room, _activated_rows(count) * layers[0].inner))
        query, value, self._attended, key, scores, context = workspace.matrices(rows, *shapes)
        one_by_one = rows.dtype == torch.float32 and longest > _SHORT
        # as columns: the product of a text's queries and keys took 37 us, of keys in rows 66 (12 heads of 85 x 32)
        key = key.t() if one_by_one else key.view(count, hidden)
        self._projected = query, key, value
        self._together: list[tuple[Tensor, ...]] = []
        self._alone: list[tuple[Tensor, ...]] = []
        start = 0
        for length, run in itertools.groupby(lengths):
            texts = len(list(run))
            its_rows = slice(start, start := start + texts * length)
            parts = [
                matrix[its_rows].view(texts, length, heads, -1).transpose(1, 2)
                for matrix in (query, key, value, self._attended)
            ]
            if one_by_one and length > _SHORT:
                own_scores = scores[: heads * length**2].view(heads, length, length)
                own_context = context[: length * hidden].view(heads, length, -1)
                self._alone += [(*of_text, own_scores, own_context) for of_text in zip(*parts, strict=True)]
            else:
                self._together.append(tuple(parts))

    def run(self, number: int, rows: Tensor) -> Tensor:
        """The states ``(rows, hidden)`` after layer ``number``, from those before it. ``rows`` is lost."""
        layer = self._layers[number]
        rows = layer.attention_norm(_add_linear(rows, layer.out, self._attention(layer, rows)))
        inner = activated(layer.up, layer.activation, rows, layer.inner, self._workspace)
        normed: Tensor = layer.output_norm(_add_linear(rows, layer.down, inner))
        return normed

    def _attention(self, layer: Layer, rows: Tensor) -> Tensor:
        """Text by text: its scores stay in the cache, and queries, keys and values are read where they were left.

        One thread took 8.6 ms for 27 texts of 75 tokens (12 heads of 32), torch's fused attention 11.8.
        """
        for linear, out in zip((layer.query, layer.key, layer.value), self._projected, strict=True):
            # a key's bias adds the same to all scores of a query, which the softmax takes away again
            _linear(linear, rows, out, bias=linear is not layer.key)
        for query, key, value, into in self._together:
            into.copy_(functional.scaled_dot_product_attention(query, key, value))
        for query, key, value, into, scores, context in self._alone:
            torch.baddbmm(scores, query, key.transpose(1, 2), beta=0, alpha=query.shape[-1] ** -0.5, out=scores)
            torch.softmax(scores, -1, out=scores)
            into.copy_(torch.bmm(scores, value, out=context))
        return self._attended


def activated(linear: nn.Module, activation: nn.Module, rows: Tensor, width: int, workspace: Workspace) -> Tensor:
    """``activation(linear(rows))``, ``(rows, width)``; good until the workspace is used again.

    GELU is given whole blocks of rows, the last ones with anything in them: torch keeps what it compiled for each
    shape, and that lay between the large blocks of memory of all later batches (150 MB after 640 passages).
    """
    count = len(rows)
    (values,) = workspace.matrices(rows, (_activated_rows(count), width))
    _linear(linear, rows, values[:count])
    if isinstance(activation, GELUActivation):
        torch.ops.aten.gelu_(values)
        return values[:count]
    found: Tensor = activation(values[:count])
    return found


def _activated_rows(count: int) -> int:
    return -(-count // _BLOCK) * _BLOCK


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
