"""Scores of all tokens and terms, pooled inside Triton kernels: the scores are never written to memory."""

# ruff: noqa: N803 (constants in capitals, as in every Triton kernel)
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from encoders.head.tiled_scores import Entries, Span

_ROWS, _COLUMNS = 128, 128  # of the scores that one program holds
_COLUMNS_BACKWARD = 64  # next to as many gradients; with 128 the registers spill
_MIN_ROWS, _MIN_TOKENS = 16, 8  # minimum of a tensor core; padding of shorter texts
_WIDTH_IN_BYTES = 128  # of the hidden states and decoder rows that are loaded at a time
_GRADIENT_COLUMNS = 8192  # columns whose score gradients are held at a time


@dataclass(frozen=True)
class FusedScores:
    """The methods of ``TiledScores`` by Triton kernels; ``rows`` include padding: ``(texts * tokens, hidden)``.

    Every sum has a fixed order, so the same input gives the same bits. Off by default (``vocabulary_head``).
    """

    texts: int
    tokens: int
    keep: Tensor
    """Rows that count, booleans ``(texts, tokens)``."""
    dtype: torch.dtype

    def max(self, rows: Tensor, weight: Tensor, bias: Tensor, *, relu: bool, log: bool) -> Tensor:
        pooled = self._pooled(rows, weight)
        self._max(rows, weight, bias, pooled, pooled, WINNERS=False, RELU=relu, LOG=log)
        return pooled

    def max_and_entries(
        self, rows: Tensor, weight: Tensor, bias: Tensor, *, relu: bool, log: bool
    ) -> tuple[Tensor, Entries]:
        pooled, winners = self.max_with_row(rows, weight)
        pooled.add_(bias).masked_fill_(~self.keep.any(1, keepdim=True), 0.0)
        text, column = ((pooled > 0) if relu else self.keep.any(1, keepdim=True).expand_as(pooled)).nonzero(
            as_tuple=True
        )
        entries = (winners[text, column], column.int(), pooled[text, column])
        pooled = pooled.relu_() if relu else pooled
        return (pooled.log1p_() if log else pooled), entries

    def max_with_row(self, rows: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The maxima without bias (arbitrary for a text without rows), and the row of each, as int32."""
        pooled = self._pooled(rows, weight)
        winners = torch.empty_like(pooled, dtype=torch.int32)
        self._max(rows, weight, pooled, pooled, winners, WINNERS=True, RELU=False, LOG=False)
        return pooled, winners

    def sum(self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool) -> Tensor:
        pooled = self._pooled(rows, weight)
        tensors = (rows.to(self.dtype).contiguous(), *self._mask(), weight.to(self.dtype).contiguous(), bias)
        self._run(_sum_kernel, len(weight), _COLUMNS, *tensors, pooled, *self._sizes, *weight.shape, LOG=log)
        return pooled

    def sum_and_entries(
        self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool
    ) -> tuple[Tensor, Entries, list[Span]]:
        """No entries: on a GPU it is faster to compute all scores again."""
        numbers = torch.empty(0, dtype=torch.int32, device=rows.device)
        pooled, terms = self.sum(rows, weight, bias, log=log), len(weight)
        spans = [(start, min(start + _GRADIENT_COLUMNS, terms)) for start in range(0, terms, _GRADIENT_COLUMNS)]
        return pooled, (numbers, numbers, pooled.new_empty(0)), spans

    def text_of(self, row: Tensor) -> Tensor:
        return row // self.tokens

    def score_gradients(
        self, rows: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor, spans: list[Span], *, log: bool
    ) -> Iterator[tuple[Span, Tensor, Tensor]]:
        widest = max((end - start for start, end in spans), default=0)
        buffer = rows.new_zeros(len(rows), widest)  # rows that do not count stay 0
        tensors = (rows.contiguous(), *self._mask(), weight.contiguous(), bias, gradient.contiguous())
        d_bias = torch.empty(self._grid_texts, len(weight), dtype=gradient.dtype, device=rows.device)
        for start, end in spans:
            sizes = (*self._sizes, start, end, *weight.shape, widest)
            self._run(_sum_gradient_kernel, end - start, _COLUMNS_BACKWARD, *tensors, buffer, d_bias, *sizes, LOG=log)
            yield (start, end), buffer[:, : end - start], d_bias[:, start:end].sum(0)

    def _max(
        self, rows: Tensor, weight: Tensor, bias: Tensor, pooled: Tensor, winners: Tensor, **constants: bool
    ) -> None:
        tensors = (rows.to(self.dtype).contiguous(), *self._mask(), weight.to(self.dtype).contiguous(), bias)
        self._run(
            _max_kernel, len(weight), _COLUMNS, *tensors, pooled, winners, *self._sizes, *weight.shape, **constants
        )

    def _pooled(self, rows: Tensor, weight: Tensor) -> Tensor:
        return torch.empty(self.texts, len(weight), dtype=torch.float32, device=rows.device)

    def _mask(self) -> tuple[Tensor, Tensor]:
        """The mask as bytes, and the number of tokens of each text up to the last that counts."""
        keep = self.keep.to(torch.uint8)
        positions = torch.arange(1, self.tokens + 1, dtype=torch.int32, device=keep.device)
        return keep.contiguous(), (keep * positions).amax(1)

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.texts, self.tokens

    @property
    def _block(self) -> tuple[int, int]:
        """Texts and tokens of one program, powers of two."""
        tokens = min(max(_power_of_two(self.tokens), _MIN_TOKENS), _ROWS)
        texts = min(_power_of_two(self.texts), _ROWS // tokens)
        return max(texts, _MIN_ROWS // tokens), tokens

    @property
    def _grid_texts(self) -> int:
        return -(-self.texts // self._block[0])

    def _run(self, kernel: Any, columns: int, tile: int, *arguments: Any, **constants: bool) -> None:
        """Texts are the faster axis of the grid: programs that run together read the same rows of the decoder."""
        if not (self.texts and columns):
            return
        texts, tokens = self._block
        width = min(_WIDTH_IN_BYTES // self.dtype.itemsize, max(_power_of_two(arguments[0].shape[1]), _MIN_ROWS))
        with torch.cuda.device_of(arguments[0]):
            kernel[(self._grid_texts, -(-columns // tile))](
                *arguments,
                TEXTS=texts,
                TOKENS=tokens,
                COLUMNS=tile,
                WIDTH=width,
                PRECISION=_precision(),
                num_warps=8 if texts * tokens * tile > 64 * 128 else 4,
                num_stages=3,
                **constants,
            )


def _power_of_two(number: int) -> int:
    """The smallest power of two that is at least ``number``."""
    return 1 << max(number - 1, 0).bit_length()


def _precision() -> str:
    """Precision of float32 products, as set for torch."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


# A program holds the scores of TEXTS texts, TOKENS tokens of each, for COLUMNS terms, and loops over the tokens. Row
# numbers are text * tokens + token. Blocks after the last position that counts (``ends``, one per text) are skipped.
# The maxima propagate NaN, as torch's do. ``hidden`` is (rows, width) and ``weight`` (terms, width), both contiguous.


@triton.jit
def _max_kernel(
    hidden: tl.tensor, keep: tl.tensor, ends: tl.tensor, weight: tl.tensor, bias: tl.tensor, pooled: tl.tensor,
    winners: tl.tensor, texts: tl.tensor, tokens: tl.tensor, terms: tl.tensor, width: tl.tensor,
    TEXTS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    WINNERS: tl.constexpr, RELU: tl.constexpr, LOG: tl.constexpr,
) -> None:  # fmt: skip
    """With ``WINNERS``, the maxima without bias and their rows; else the maxima with bias, ReLU and log."""
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
            value, first = tl.reduce((folded, token), 1, _first_larger)
            better = (value > best) | (value != value)
            winner = tl.where(better, start + first, winner)
            best = tl.where(better, value, best)
        else:
            best = _larger(best, tl.reduce(folded, 1, _larger))
    target = text.to(tl.int64)[:, None] * terms + column[None, :]
    inside = (text < texts)[:, None] & (column < terms)[None, :]
    if WINNERS:
        tl.store(winners + target, text[:, None] * tokens + winner, mask=inside)
    else:
        best += tl.load(bias + column, mask=column < terms, other=0.0).to(tl.float32)[None, :]
        best = tl.where((ending > 0)[:, None], best, 0.0)
        best = _activated(best, RELU, LOG)
    tl.store(pooled + target, best, mask=inside)


@triton.jit
def _sum_kernel(
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
    target = text.to(tl.int64)[:, None] * terms + column[None, :]
    tl.store(pooled + target, total, mask=(text < texts)[:, None] & (column < terms)[None, :])


@triton.jit
def _sum_gradient_kernel(
    hidden: tl.tensor, keep: tl.tensor, ends: tl.tensor, weight: tl.tensor, bias: tl.tensor, gradient: tl.tensor,
    d_scores: tl.tensor, d_bias: tl.tensor, texts: tl.tensor, tokens: tl.tensor, first: tl.tensor, last: tl.tensor,
    terms: tl.tensor, width: tl.tensor, stride: tl.tensor,
    TEXTS: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, PRECISION: tl.constexpr,
    LOG: tl.constexpr,
) -> None:  # fmt: skip
    """Gradients ``(rows, stride)`` of the scores in columns ``first`` to ``last``, which are computed again.

    ``d_bias`` ``(programs, terms)`` receives their sums over each program's rows. Masked rows are not written.
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
        target = row.to(tl.int64)[:, None] * stride + (column - first)[None, :]
        tl.store(d_scores + target, slope.to(d_scores.dtype.element_ty), mask=counted[:, None] & there[None, :])
    tl.store(d_bias + tl.program_id(0) * terms + column, total, mask=there)


@triton.jit
def _rows(
    keep: tl.tensor, start: tl.tensor, texts: tl.tensor, tokens: tl.tensor,
    TEXTS: tl.constexpr, TOKENS: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:  # fmt: skip
    """The row numbers of a block of tokens, and a mask of those that count."""
    index = tl.arange(0, TEXTS * TOKENS)
    text = tl.program_id(0) * TEXTS + index // TOKENS
    token = start + index % TOKENS
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
    value: tl.tensor, token: tl.tensor, other: tl.tensor, other_token: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """The larger of two ``(score, token)``; of equal scores the earlier token."""
    take = (value > other) | (value != value) | ((value == other) & (token < other_token))
    return tl.where(take, value, other), tl.where(take, token, other_token)
