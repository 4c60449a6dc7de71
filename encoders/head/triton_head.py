"""Scores of all tokens and terms, pooled inside Triton kernels: they are never written to memory."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from encoders.head.sparse_gradients import Entries

_OLDEST = (8, 0)  # Ampere: the first with bf16 and the instruction that lets NaN through a maximum
_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
_ROWS, _COLUMNS = 128, 128  # of the scores one program holds
_COLUMNS_BACKWARD = 64  # beside as many gradients; with 128 the registers spill
_LEAST_ROWS, _LEAST_TOKENS = 16, 8  # what a tensor core takes; padding of shorter texts
_WIDTH_IN_BYTES = 128  # of the hidden states and decoder rows that are loaded at a time
_GRADIENT_COLUMNS = 8192  # whose score gradients are held at a time

Span = tuple[int, int]


def uses_kernels(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether products in ``dtype`` on ``device`` are left to the kernels: on NVIDIA GPUs where Triton is installed."""
    if device.type != "cuda" or torch.version.cuda is None:
        return False
    return can_use_kernels(torch.cuda.get_device_capability(device), dtype, installed=_triton_is_installed())


def can_use_kernels(capability: tuple[int, int], dtype: torch.dtype, *, installed: bool) -> bool:
    """The rule behind :func:`uses_kernels`: the GPU is new enough, the numbers are no wider than float32.

    >>> can_use_kernels((9, 0), torch.bfloat16, installed=True)
    True
    """
    return installed and capability >= _OLDEST and dtype in _DTYPES


@functools.cache
def _triton_is_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


@dataclass(frozen=True)
class FusedScores:
    """:class:`encoders.head.score_pooling.Scores` by Triton, for rows that are a rectangle of ``(texts, tokens)``.

    Every sum has a fixed order, so that the same input gives the same bits.
    """

    texts: int
    tokens: int
    keep: Tensor
    """Which rows count, ``(texts, tokens)`` of bool."""
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
        """The maxima without bias (anything for a text without rows), and the row each stands in, as int32."""
        pooled = self._pooled(rows, weight)
        winners = torch.empty_like(pooled, dtype=torch.int32)
        self._max(rows, weight, pooled, pooled, winners, WINNERS=True, RELU=False, LOG=False)
        return pooled, winners

    def sum(self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool) -> Tensor:
        pooled = self._pooled(rows, weight)
        tensors = (rows.to(self.dtype).contiguous(), *self._rows_that_count(), weight.to(self.dtype).contiguous(), bias)
        self._run("sum_kernel", len(weight), _COLUMNS, *tensors, pooled, *self._sizes, *weight.shape, LOG=log)
        return pooled

    def sum_and_entries(
        self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool
    ) -> tuple[Tensor, Entries, list[Span]]:
        """No entries: computing all scores again is what a GPU does best."""
        places = torch.empty(0, dtype=torch.int32, device=rows.device)
        pooled, terms = self.sum(rows, weight, bias, log=log), len(weight)
        spans = [(start, min(start + _GRADIENT_COLUMNS, terms)) for start in range(0, terms, _GRADIENT_COLUMNS)]
        return pooled, (places, places, pooled.new_empty(0)), spans

    def text_of(self, row: Tensor) -> Tensor:
        return row // self.tokens

    def score_gradients(
        self, rows: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor, spans: list[Span], *, log: bool
    ) -> Iterator[tuple[Span, Tensor, Tensor]]:
        widest = max((end - start for start, end in spans), default=0)
        buffer = rows.new_zeros(len(rows), widest)  # rows that do not count stay 0
        tensors = (rows.contiguous(), *self._rows_that_count(), weight.contiguous(), bias, gradient.contiguous())
        d_bias = torch.empty(self._grid_texts, len(weight), dtype=gradient.dtype, device=rows.device)
        for start, end in spans:
            sizes = (*self._sizes, start, end, *weight.shape, widest)
            self._run("sum_gradient_kernel", end - start, _COLUMNS_BACKWARD, *tensors, buffer, d_bias, *sizes, LOG=log)
            yield (start, end), buffer[:, : end - start], d_bias[:, start:end].sum(0)

    def _max(self, rows: Tensor, weight: Tensor, bias: Tensor, pooled: Tensor, winners: Tensor, **how: bool) -> None:
        tensors = (rows.to(self.dtype).contiguous(), *self._rows_that_count(), weight.to(self.dtype).contiguous(), bias)
        self._run("max_kernel", len(weight), _COLUMNS, *tensors, pooled, winners, *self._sizes, *weight.shape, **how)

    def _pooled(self, rows: Tensor, weight: Tensor) -> Tensor:
        return torch.empty(self.texts, len(weight), dtype=torch.float32, device=rows.device)

    def _rows_that_count(self) -> tuple[Tensor, Tensor]:
        """As bytes, and each text's number of tokens up to the last that counts."""
        keep = self.keep.to(torch.uint8)
        places = torch.arange(1, self.tokens + 1, dtype=torch.int32, device=keep.device)
        return keep.contiguous(), (keep * places).amax(1)

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.texts, self.tokens

    @property
    def _block(self) -> tuple[int, int]:
        """Texts and tokens of one program, powers of two."""
        tokens = min(max(_power_of_two(self.tokens), _LEAST_TOKENS), _ROWS)
        texts = min(_power_of_two(self.texts), _ROWS // tokens)
        return max(texts, _LEAST_ROWS // tokens), tokens

    @property
    def _grid_texts(self) -> int:
        return -(-self.texts // self._block[0])

    def _run(self, kernel: str, columns: int, tile: int, *arguments: Any, **how: bool) -> None:
        """Texts are the faster axis of the grid: programs that run together read the same rows of the decoder."""
        if not (self.texts and columns):
            return
        from encoders.head import triton_kernels

        texts, tokens = self._block
        width = min(_WIDTH_IN_BYTES // self.dtype.itemsize, max(_power_of_two(arguments[0].shape[1]), _LEAST_ROWS))
        with torch.cuda.device_of(arguments[0]):
            getattr(triton_kernels, kernel)[(self._grid_texts, -(-columns // tile))](
                *arguments,
                TEXTS=texts,
                TOKENS=tokens,
                COLUMNS=tile,
                WIDTH=width,
                PRECISION=_precision(),
                num_warps=8 if texts * tokens * tile > 64 * 128 else 4,
                num_stages=3,
                **how,
            )


def _power_of_two(number: int) -> int:
    """The least that is not smaller than ``number``."""
    return 1 << max(number - 1, 0).bit_length()


def _precision() -> str:
    """Of products of float32: what torch's own do."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
