"""Hidden states to pooled vocabulary weights, without ever holding (batch, tokens, vocabulary)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from encoders.head.score_pooling import Scores, max_over_rows, sum_over_rows
from encoders.head.tiled_scores import TiledScores, accumulator, compute_dtype
from encoders.head.token_layout import lay_out
from encoders.head.triton_head import FusedScores, uses_kernels

Pooling = Literal["sum", "max"]
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
) -> Tensor:
    """Pooled weights ``(batch, vocabulary)``, at least float32, of ``scores = hidden @ weight.T + bias``.

    ``hidden`` is ``(batch, tokens, hidden)``, ``mask`` ``(batch, tokens)`` is non-zero at the positions that count,
    ``weight`` is ``(vocabulary, hidden)`` and ``bias`` ``(vocabulary,)``. Sum: ``sum_i f(relu(score_i))``; max:
    ``f(relu(max_i score_i))``; ``f`` is log(1 + x) or the identity. A text with no position that counts pools to 0.
    ``relu=False`` (max only, no saturation) keeps negative maxima.
    """
    if not relu and (pooling != "max" or saturation != "none"):
        raise ValueError("relu=False is for max pooling without saturation")
    dtype = compute_dtype(hidden)
    with torch.autocast(hidden.device.type, enabled=False):
        rows, scores = _rows_and_scores(hidden, mask, dtype)
        learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (hidden, weight, bias))
        log = saturation == "log"
        if pooling == "sum":
            if learns:
                return sum_over_rows(rows, weight, bias, scores, log=log)
            return scores.sum(rows, weight, bias, log=log)
        if learns:
            return max_over_rows(rows, weight, bias, scores, relu=relu, log=log)
        return scores.max(rows, weight, bias, relu=relu, log=log)


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
    """As :func:`pool`, computing only the vocabulary ids ``columns`` (no repeats); the others are 0."""
    if 2 * len(columns) > len(weight):
        keep = torch.zeros(len(weight), dtype=torch.bool, device=weight.device).index_fill_(0, columns, True)
        return pool(hidden, mask, weight, bias, pooling=pooling, saturation=saturation).where(keep, 0.0)
    some = pool(
        hidden, mask, functional.embedding(columns, weight), bias[columns], pooling=pooling, saturation=saturation
    )
    return some.new_zeros(len(some), len(weight)).index_copy(1, columns, some)


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
    """As :func:`pool`, for the tokens of each text itself: ``(tokens, tokens)`` scores a text; all other weights are 0.

    ``literal`` ``(batch, tokens)`` says which positions stand in the text's bag of words.
    """
    wide = accumulator(hidden)
    own_weight, own_bias = functional.embedding(input_ids, weight), bias[input_ids].to(wide)
    scores = torch.matmul(hidden, own_weight.to(hidden.dtype).transpose(1, 2)).to(wide) + own_bias[:, None, :]
    scores = scores.relu().masked_fill(
        ~mask.bool()[:, :, None], 0.0
    )  # after ReLU, 0 changes neither a sum nor a maximum
    if saturation == "log":
        scores = scores.log1p()
    pooled = scores.sum(1) if pooling == "sum" else scores.amax(1)
    pooled = pooled.masked_fill(~first_occurrences(input_ids, literal.bool()), 0.0)
    return pooled.new_zeros(len(pooled), len(weight)).scatter_add(1, input_ids, pooled)


def first_occurrences(input_ids: Tensor, literal: Tensor) -> Tensor:
    """True at the first of each text's ``literal`` positions that hold the same token; all ``(batch, tokens)``."""
    same = (input_ids[:, :, None] == input_ids[:, None, :]) & literal[:, None, :]
    return literal & ~same.tril(diagonal=-1).any(2)


def _rows_and_scores(hidden: Tensor, mask: Tensor, dtype: torch.dtype) -> tuple[Tensor, Scores]:
    """Triton's kernels where they can run, plain PyTorch elsewhere."""
    if uses_kernels(hidden.device, dtype):
        texts, tokens, width = hidden.shape
        return hidden.reshape(-1, width), FusedScores(texts, tokens, mask.bool(), dtype)
    layout, rows = lay_out(hidden, mask)
    return rows, TiledScores(layout, dtype)
