"""Which token of a text gives how much of each of its weights: the maximum, or each addend of a sum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from learned_sparse.core import LearnedSparseError, Share


class Shares(NamedTuple):
    """``value[i]`` of dimension ``column[i]`` comes from token ``token[i]``; all ``(n,)``."""

    part: str
    token: Tensor
    column: Tensor
    value: Tensor
    gate: bool = False
    """Logits of a gate, which are no part of the weight."""

    def of_part(self, part: str, factor: float = 1.0) -> Shares:
        """As those of ``part``, whose weights count ``factor`` times."""
        return self._replace(part=part, value=self.value * factor)

    def entries(self) -> Iterator[tuple[int, Share]]:
        """Dimension and share of each."""
        for token, column, value in zip(self.token.tolist(), self.column.tolist(), self.value.tolist(), strict=True):
            yield column, Share(token, value, self.part)


class Attributing(Protocol):
    """One side of an architecture that can say where its weights come from."""

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """Of the weights ``columns`` ``(n,)``, all above 0, of one text; ``input_ids`` is ``(1, tokens)``."""


def attribute(weigher: nn.Module, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
    """What ``weigher`` says of the weights ``columns`` of one text."""
    shares = getattr(weigher, "shares", None)
    if shares is None:
        raise LearnedSparseError(
            f"{type(weigher).__name__} cannot say which tokens its weights come from (no `shares`)"
        )
    with torch.inference_mode():
        found: list[Shares] = shares(input_ids, attention_mask, columns)
    return found


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
    """Of ``encoders.head.vocabulary_head.pool`` for one text: ``hidden`` is ``(1, tokens, hidden)``."""
    (place,) = mask[0].nonzero(as_tuple=True)
    rows, wide = hidden[0, place], torch.promote_types(hidden.dtype, torch.float32)
    scores = (rows @ functional.embedding(columns, weight).to(rows.dtype).T).to(wide) + bias[columns].to(wide)
    if relu:
        scores = scores.relu()
    if saturation == "log":
        scores = scores.log1p()
    if pooling == "max" and len(place):
        best = torch.zeros_like(scores, dtype=torch.bool).scatter_(0, scores.argmax(0, keepdim=True), True)
        row, column = (best & (scores != 0)).nonzero(as_tuple=True)
    else:
        row, column = scores.nonzero(as_tuple=True)
    return Shares("", place[row], columns[column], scores[row, column])


def largest_shares(values: Tensor, found: Tensor, tokens: Tensor, columns: Tensor) -> Shares:
    """Of ``encoders.head.token_top_k.max_pool_entries``: ``values`` and ``found`` (their columns) are ``(rows, k)``.

    ``tokens`` ``(rows,)`` is the place of each row in the text. Of equal values the first token's counts.
    """
    token = tokens[:, None].expand_as(found).flatten()
    value, column = values.flatten(), found.flatten()
    kept = (value > 0) & torch.isin(column, columns)
    return _first_largest(token[kept], column[kept], value[kept])


def merged_shares(
    scores: Tensor, input_ids: Tensor, counted: Tensor, columns: Tensor, repeats: Literal["max", "first", "mean", "sum"]
) -> Shares:
    """Of ``encoders.models.token_weights.merge`` for one text; the first three are ``(1, tokens)``.

    Terms whose weight would not be above 0 have no shares.
    """
    (place,) = (counted[0] & torch.isin(input_ids[0], columns)).nonzero(as_tuple=True)
    column, value = input_ids[0, place], scores[0, place]
    if repeats == "max":
        found = _first_largest(place, column, value)
    elif repeats == "first":
        found = _first_largest(place, column, -place)
        found = found._replace(value=scores[0, found.token])
    else:
        count = torch.bincount(column, minlength=int(columns.max()) + 1 if len(columns) else 0)
        found = Shares("", place, column, value / count[column] if repeats == "mean" else value)
    totals = _totals(found, columns)
    kept = (totals[found.column] > 0) & (found.value != 0)
    return Shares("", found.token[kept], found.column[kept], found.value[kept])


def _totals(shares: Shares, columns: Tensor) -> Tensor:
    """The sum of the values of each column, by column."""
    size = int(torch.cat([shares.column, columns]).max()) + 1 if len(columns) or len(shares.column) else 0
    return shares.value.new_zeros(size).index_add_(0, shares.column, shares.value)


def _first_largest(token: Tensor, column: Tensor, value: Tensor) -> Shares:
    """Of the entries of each column the largest value, the first token's if there are several."""
    order = token.argsort(stable=True)
    order = order[value[order].argsort(descending=True, stable=True)]
    order = order[column[order].argsort(stable=True)]
    token, column, value = token[order], column[order], value[order]
    first = torch.ones_like(column, dtype=torch.bool)
    first[1:] = column[1:] != column[:-1]
    return Shares("", token[first], column[first], value[first])
