"""Hidden states to pooled vocabulary weights, without ever holding (batch, tokens, vocabulary)."""

from __future__ import annotations

import functools
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from encoders.head.screen import Screen
from encoders.head.tiled_scores import (
    Pooling,
    TiledScores,
    TokenRows,
    accumulator,
    compute_dtype,
    pooled_with_gradient,
)

Saturation = Literal["log", "none"]


def pool(
    hidden: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    pooling: Pooling,
    saturation: Saturation = "none",
    relu: bool = True,
    screen: Screen | None = None,
) -> Tensor:
    """Pooled weights ``(batch, vocabulary)``, at least float32, of ``scores = hidden @ weight.T + bias``.

    ``hidden`` is ``(batch, tokens, hidden)``, ``mask`` ``(batch, tokens)`` is non-zero at the positions that count,
    ``weight`` is ``(vocabulary, hidden)`` and ``bias`` ``(vocabulary,)``. Sum: ``sum_i f(relu(score_i))``; max:
    ``f(relu(max_i score_i))``; ``f`` is log(1 + x) or the identity. A text with no position that counts pools to 0.
    ``relu=False`` (max only, no saturation) keeps negative maxima. ``screen`` may leave out terms that get no weight,
    which changes no result and no gradient.
    """
    if not relu and (pooling != "max" or saturation != "none"):
        raise ValueError("relu=False is for max pooling without saturation")
    dtype, log = compute_dtype(hidden), saturation == "log"
    with torch.autocast(hidden.device.type, enabled=False):
        layout = TokenRows(mask, drop_padding=hidden.device.type == "cpu")
        scores, rows, screen = TiledScores(layout, dtype), layout.select(hidden), screen if relu else None
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (hidden, weight, bias)):
            maxima = functools.partial(screen.max_and_entries, scores=scores) if screen else None
            return pooled_with_gradient(rows, weight, bias, scores, pooling, relu=relu, log=log, max_and_entries=maxima)
        if screen:
            return screen.pool(rows, weight, bias, scores, pooling, log=log)
        return scores.pooled(rows, weight, bias, pooling, relu=relu, log=log)


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
    """``pool`` for the vocabulary ids ``columns`` only (no repeats); all other weights are 0."""
    if 2 * len(columns) > len(weight):
        keep = torch.zeros(len(weight), dtype=torch.bool, device=weight.device).index_fill_(0, columns, True)
        return pool(hidden, mask, weight, bias, pooling=pooling, saturation=saturation).where(keep, 0.0)
    pooled = pool(
        hidden, mask, functional.embedding(columns, weight), bias[columns], pooling=pooling, saturation=saturation
    )
    return pooled.new_zeros(len(pooled), len(weight)).index_copy(1, columns, pooled)


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
    """``pool`` for the tokens of each text only, ``(tokens, tokens)`` scores per text; all other weights are 0.

    ``literal`` ``(batch, tokens)`` marks the positions that belong to the text's bag of words.
    """
    wide = accumulator(hidden)
    own_weight, own_bias = functional.embedding(input_ids, weight), bias[input_ids].to(wide)
    scores = torch.matmul(hidden, own_weight.to(hidden.dtype).transpose(1, 2)).to(wide) + own_bias[:, None, :]
    # after ReLU, 0 changes neither a sum nor a maximum
    scores = scores.relu().masked_fill(~mask.bool()[:, :, None], 0.0)
    if saturation == "log":
        scores = scores.log1p()
    pooled = scores.sum(1) if pooling == "sum" else scores.amax(1)
    pooled = pooled.masked_fill(~first_occurrences(input_ids, literal.bool()), 0.0)
    return pooled.new_zeros(len(pooled), len(weight)).scatter_add(1, input_ids, pooled)


def first_occurrences(input_ids: Tensor, literal: Tensor) -> Tensor:
    """True at the first of the ``literal`` positions of each text that hold the same token; all ``(batch, tokens)``."""
    same = (input_ids[:, :, None] == input_ids[:, None, :]) & literal[:, None, :]
    return literal & ~same.tril(diagonal=-1).any(2)
