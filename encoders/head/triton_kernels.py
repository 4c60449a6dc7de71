"""Triton kernels of the vocabulary head: the scores of a tile are pooled where they were computed."""

# ruff: noqa: N803 (constants in capitals, as in every Triton kernel)
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import triton
import triton.language as tl

# A program holds the scores of TEXTS texts, TOKENS tokens of each, for COLUMNS terms, and walks along the tokens. Row
# numbers are text * tokens + token, as in the rectangle (texts, tokens). Blocks after the last position that counts
# (``ends``, one a text) are not computed. The maxima let NaN through, as torch's do. ``hidden`` is (rows, width) and
# ``weight`` (terms, width), both contiguous.


@triton.jit
def max_kernel(
    hidden: tl.tensor, keep: tl.tensor, ends: tl.tensor, weight: tl.tensor, bias: tl.tensor, pooled: tl.tensor,
    winners: tl.tensor, texts: tl.tensor, tokens: tl.tensor, terms: tl.tensor, width: tl.tensor,
    TEXTS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    WINNERS: tl.constexpr, RELU: tl.constexpr, LOG: tl.constexpr,
) -> None:  # fmt: skip
    """With ``WINNERS`` the bare maxima and the rows they stand in, else the maxima with bias, ReLU and log."""
    text = tl.program_id(0) * TEXTS + tl.arange(0, TEXTS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    best = tl.full((TEXTS, COLUMNS), float("-inf"), tl.float32)
    winner = tl.zeros((TEXTS, COLUMNS), tl.int32)
    ending = tl.load(ends + text, mask=text < texts, other=0)
    for start in range(0, tl.max(ending, axis=0), TOKENS):
        row, counted = _rows(keep, start, texts, tokens, TEXTS, TOKENS)
        scores = _scores(hidden, weight, row, counted, column, terms, width, TEXTS * TOKENS, COLUMNS, WIDTH, PRECISION)
        scores = tl.where(counted[:, None], scores, float("-inf"))
        folded = tl.reshape(scores, (TEXTS, TOKENS, COLUMNS))
        if WINNERS:
            token = tl.broadcast_to(tl.arange(0, TOKENS)[None, :, None], (TEXTS, TOKENS, COLUMNS))
            value, place = tl.reduce((folded, token), 1, _first_larger)
            better = (value > best) | (value != value)
            winner = tl.where(better, start + place, winner)
            best = tl.where(better, value, best)
        else:
            best = _larger(best, tl.reduce(folded, 1, _larger))
    place = text.to(tl.int64)[:, None] * terms + column[None, :]
    inside = (text < texts)[:, None] & (column < terms)[None, :]
    if WINNERS:
        tl.store(winners + place, text[:, None] * tokens + winner, mask=inside)
    else:
        best += tl.load(bias + column, mask=column < terms, other=0.0).to(tl.float32)[None, :]
        best = tl.where((ending > 0)[:, None], best, 0.0)
        best = _activated(best, RELU, LOG)
    tl.store(pooled + place, best, mask=inside)


@triton.jit
def sum_kernel(
    hidden: tl.tensor, keep: tl.tensor, ends: tl.tensor, weight: tl.tensor, bias: tl.tensor, pooled: tl.tensor,
    texts: tl.tensor, tokens: tl.tensor, terms: tl.tensor, width: tl.tensor,
    TEXTS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    LOG: tl.constexpr,
) -> None:  # fmt: skip
    """Sums over tokens of the ReLU of the scores, or of its log(1 + x)."""
    text = tl.program_id(0) * TEXTS + tl.arange(0, TEXTS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    offset = tl.load(bias + column, mask=column < terms, other=0.0).to(tl.float32)
    total = tl.zeros((TEXTS, COLUMNS), tl.float32)
    ending = tl.load(ends + text, mask=text < texts, other=0)
    for start in range(0, tl.max(ending, axis=0), TOKENS):
        row, counted = _rows(keep, start, texts, tokens, TEXTS, TOKENS)
        scores = _scores(hidden, weight, row, counted, column, terms, width, TEXTS * TOKENS, COLUMNS, WIDTH, PRECISION)
        scores = _activated(scores + offset[None, :], True, LOG)
        scores = tl.where(counted[:, None], scores, 0.0)
        total += tl.sum(tl.reshape(scores, (TEXTS, TOKENS, COLUMNS)), axis=1)
    place = text.to(tl.int64)[:, None] * terms + column[None, :]
    tl.store(pooled + place, total, mask=(text < texts)[:, None] & (column < terms)[None, :])


@triton.jit
def sum_gradient_kernel(
    hidden: tl.tensor, keep: tl.tensor, ends: tl.tensor, weight: tl.tensor, bias: tl.tensor, gradient: tl.tensor,
    d_scores: tl.tensor, d_bias: tl.tensor, texts: tl.tensor, tokens: tl.tensor, first: tl.tensor, last: tl.tensor,
    terms: tl.tensor, width: tl.tensor, stride: tl.tensor,
    TEXTS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    LOG: tl.constexpr,
) -> None:  # fmt: skip
    """Gradients of the scores in columns ``first`` to ``last``, computed again: ``(rows, stride)``.

    ``d_bias`` ``(programs, terms)`` gets their sums over each program's rows. Rows that do not count are left alone.
    """
    text = tl.program_id(0) * TEXTS + tl.arange(0, TEXTS)
    column = first + tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there = column < last
    offset = tl.load(bias + column, mask=there, other=0.0).to(tl.float32)
    upstream = tl.load(
        gradient + text.to(tl.int64)[:, None] * terms + column[None, :],
        mask=(text < texts)[:, None] & there[None, :],
        other=0.0,
    )
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, tl.max(tl.load(ends + text, mask=text < texts, other=0), axis=0), TOKENS):
        row, counted = _rows(keep, start, texts, tokens, TEXTS, TOKENS)
        scores = _scores(hidden, weight, row, counted, column, last, width, TEXTS * TOKENS, COLUMNS, WIDTH, PRECISION)
        scores += offset[None, :]
        spread = tl.broadcast_to(upstream[:, None, :], (TEXTS, TOKENS, COLUMNS))
        slope = tl.reshape(spread, (TEXTS * TOKENS, COLUMNS))
        if LOG:
            slope = slope / (1.0 + tl.where(scores > 0, scores, 0.0))
        slope = tl.where(counted[:, None] & (scores > 0), slope, 0.0)
        total += tl.sum(slope, axis=0)
        place = row.to(tl.int64)[:, None] * stride + (column - first)[None, :]
        tl.store(d_scores + place, slope.to(d_scores.dtype.element_ty), mask=counted[:, None] & there[None, :])
    tl.store(d_bias + tl.program_id(0) * terms + column, total, mask=there)


@triton.jit
def _rows(
    keep: tl.tensor, start: tl.tensor, texts: tl.tensor, tokens: tl.tensor,
    TEXTS: tl.constexpr, TOKENS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """The row numbers of a block of tokens, and which of them count."""
    place = tl.arange(0, TEXTS * TOKENS)
    text = tl.program_id(0) * TEXTS + place // TOKENS
    token = start + place % TOKENS
    row = text * tokens + token
    inside = (text < texts) & (token < tokens)
    return row, tl.load(keep + row, mask=inside, other=0) != 0


@triton.jit
def _scores(
    hidden: tl.tensor, weight: tl.tensor, row: tl.tensor, counted: tl.tensor, column: tl.tensor, end: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """``hidden[row] @ weight[column].T`` ``(ROWS, COLUMNS)``, summed in float32; columns from ``end`` on are 0."""
    scores = tl.zeros((ROWS, COLUMNS), tl.float32)
    inner = tl.arange(0, WIDTH)
    left = hidden + row.to(tl.int64)[:, None] * width + inner[None, :]
    right = weight + column.to(tl.int64)[None, :] * width + inner[:, None]
    for start in range(0, width, WIDTH):
        within = inner < width - start
        states = tl.load(left + start, mask=counted[:, None] & within[None, :], other=0.0)
        decoder = tl.load(right + start, mask=within[:, None] & (column < end)[None, :], other=0.0)
        scores = tl.dot(states, decoder, scores, input_precision=PRECISION)
    return scores


@triton.jit
def _activated(scores: tl.tensor, RELU: tl.constexpr, LOG: tl.constexpr) -> tl.tensor:
    if RELU:
        scores = tl.where(scores < 0, 0.0, scores)  # keeps NaN
    if LOG:
        scores = tl.log(1.0 + scores)
    return scores


@triton.jit
def _larger(one: tl.tensor, other: tl.tensor) -> tl.tensor:
    return tl.maximum(one, other, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _first_larger(
    value: tl.tensor, place: tl.tensor, other: tl.tensor, elsewhere: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """Of two ``(score, token)`` the larger; of equal ones the earlier."""
    take = (value > other) | (value != value) | ((value == other) & (place < elsewhere))
    return tl.where(take, value, other), tl.where(take, place, elsewhere)
