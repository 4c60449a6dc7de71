"""Shares of the tokens of one text in its weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from learned_sparse.core.reading import Share


class Shares(NamedTuple):
    """Token ``token[i]`` contributes ``value[i]`` to the weight of dimension ``column[i]``; all ``(n,)``."""

    part: str
    """Name of the part of the model, empty for a model of one part."""
    token: Tensor
    """Positions in the text."""
    column: Tensor
    value: Tensor
    gate: bool = False
    """Whether the values are logits of a gate, which are no part of the weight."""

    def entries(self) -> Iterator[tuple[int, Share]]:
        """Dimension and share of each."""
        for token, column, value in zip(self.token.tolist(), self.column.tolist(), self.value.tolist(), strict=True):
            yield column, Share(token, value, self.part)


def pooled_shares(
    hidden: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor,
    columns: Tensor,
    *,
    pooling: Literal["sum", "max"],
    saturation: Literal["log", "none"] = "none",
    relu: bool = True,
) -> Shares:
    """Shares of tokens in the weights ``columns`` of ``pool`` of one text: ``hidden`` is ``(1, tokens, hidden)``."""
    (position,) = mask[0].nonzero(as_tuple=True)
    rows, wide = hidden[0, position], torch.promote_types(hidden.dtype, torch.float32)
    scores = (rows @ functional.embedding(columns, weight).to(rows.dtype).T).to(wide) + bias[columns].to(wide)
    if relu:
        scores = scores.relu()
    if saturation == "log":
        scores = scores.log1p()
    chosen = scores != 0
    if pooling == "max" and len(position):
        chosen &= torch.zeros_like(chosen).scatter_(0, scores.argmax(0, keepdim=True), True)
    row, column = chosen.nonzero(as_tuple=True)
    return Shares("", position[row], columns[column], scores[row, column])


def merged_shares(
    scores: Tensor, input_ids: Tensor, counted: Tensor, columns: Tensor, repeats: Literal["max", "first", "mean", "sum"]
) -> Shares:
    """Shares for ``encoders.models.token_weights.merge`` of one text; the first three are ``(1, tokens)``.

    A term without positive weight has no shares.
    """
    (position,) = (counted[0] & torch.isin(input_ids[0], columns)).nonzero(as_tuple=True)
    column, value = input_ids[0, position], scores[0, position]
    if repeats == "max":
        _, position, column, value, _ = first_largest(position, column, value)
    elif repeats == "first":
        _, position, column, _, _ = first_largest(position, column, -position)
        value = scores[0, position]
    elif repeats == "mean":
        value = value / torch.bincount(column)[column]
    size = int(column.max()) + 1 if len(column) else 0
    totals = value.new_zeros(size).index_add_(0, column, value)
    kept = (totals[column] > 0) & (value != 0)
    return Shares("", position[kept], column[kept], value[kept])


def first_largest(token: Tensor, column: Tensor, value: Tensor) -> Shares:
    """The largest value of each column, that of the first token if several are equal."""
    order = token.argsort(stable=True)
    order = order[value[order].argsort(descending=True, stable=True)]
    order = order[first_of_each(column[order])]
    return Shares("", token[order], column[order], value[order])


def first_of_each(group: Tensor) -> Tensor:
    """The number of the first element of each group, in the order of groups."""
    ordered, order = torch.sort(group, stable=True)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    return order[starts]
