"""Attribution of weights to tokens: the token of a maximum, or the tokens that add up to a sum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Share


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

    def of_part(self, part: str, factor: float = 1.0) -> Shares:
        """The shares with the name ``part`` and values multiplied by ``factor``."""
        return self._replace(part=part, value=self.value * factor)

    def entries(self) -> Iterator[tuple[int, Share]]:
        """Dimension and share of each."""
        for token, column, value in zip(self.token.tolist(), self.column.tolist(), self.value.tolist(), strict=True):
            yield column, Share(token, value, self.part)


@runtime_checkable
class Attributing(Protocol):
    """One side of an architecture that can attribute its weights to tokens."""

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """Shares of the weights ``columns`` ``(n,)``, all positive, of one text; ``input_ids`` is ``(1, tokens)``."""


def attribute(weigher: nn.Module, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
    """``weigher.shares(...)``; an error if the module cannot attribute its weights."""
    if not isinstance(weigher, Attributing):
        raise LearnedSparseError(f"{type(weigher).__name__} cannot attribute its weights to tokens (no `shares`)")
    with torch.inference_mode():
        return weigher.shares(input_ids, attention_mask, columns)


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
    """Shares for ``encoders.head.pool`` of one text: ``hidden`` is ``(1, tokens, hidden)``."""
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


def largest_shares(values: Tensor, top_columns: Tensor, tokens: Tensor, columns: Tensor) -> Shares:
    """Shares for ``encoders.head.max_pool_entries``: ``values`` and their ``top_columns`` are ``(rows, k)``.

    ``tokens`` ``(rows,)`` is the position of each row in the text. Of equal values the first token has the share.
    """
    token = tokens[:, None].expand_as(top_columns).flatten()
    value, column = values.flatten(), top_columns.flatten()
    kept = (value > 0) & torch.isin(column, columns)
    return _first_largest(token[kept], column[kept], value[kept])


def merged_shares(
    scores: Tensor, input_ids: Tensor, counted: Tensor, columns: Tensor, repeats: Literal["max", "first", "mean", "sum"]
) -> Shares:
    """Shares for ``encoders.models.token_weights.merge`` of one text; the first three are ``(1, tokens)``.

    A term without positive weight has no shares.
    """
    (position,) = (counted[0] & torch.isin(input_ids[0], columns)).nonzero(as_tuple=True)
    column, value = input_ids[0, position], scores[0, position]
    if repeats == "max":
        _, position, column, value, _ = _first_largest(position, column, value)
    elif repeats == "first":
        _, position, column, _, _ = _first_largest(position, column, -position)
        value = scores[0, position]
    elif repeats == "mean":
        value = value / torch.bincount(column)[column]
    size = int(column.max()) + 1 if len(column) else 0
    totals = value.new_zeros(size).index_add_(0, column, value)
    kept = (totals[column] > 0) & (value != 0)
    return Shares("", position[kept], column[kept], value[kept])


def _first_largest(token: Tensor, column: Tensor, value: Tensor) -> Shares:
    """The largest value of each column, that of the first token if several are equal."""
    order = token.argsort(stable=True)
    order = order[value[order].argsort(descending=True, stable=True)]
    order = order[column[order].argsort(stable=True)]
    token, column, value = token[order], column[order], value[order]
    first = torch.ones_like(column, dtype=torch.bool)
    first[1:] = column[1:] != column[:-1]
    return Shares("", token[first], column[first], value[first])
