"""Scores of all tokens and terms, tile of columns by tile of columns, pooled over each text's tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from encoders.head.sparse_gradients import Entries
from encoders.head.token_layout import Layout

_SCORES_ON_CPU = 6 * 2**20  # of a tile: 24 MB stay near the caches; 33 MB took 5 % longer
_COLUMNS_ON_CPU = (2048, 8192)  # at least and at most; of ten texts, 72 ms with 8,192, 78 with 2,048
_COLUMNS_ON_ACCELERATOR = 8192
_FEW_TERMS = 0.1  # share of maxima above 0 in a tile under which just the scores behind them are looked at
_SPARSE_BELOW = 0.05  # share of positive scores in a tile under which its entries are kept instead of computed again

Span = tuple[int, int]


def accumulator(tensor: Tensor) -> torch.dtype:
    """What results are held in: float32 or wider."""
    return torch.promote_types(tensor.dtype, torch.float32)


def compute_dtype(hidden: Tensor) -> torch.dtype:
    """What matrix products are computed in: autocast's choice, or the tensor's own."""
    device = hidden.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype


class TiledScores:
    """:class:`encoders.head.score_pooling.Scores` in plain PyTorch, on every device."""

    def __init__(self, layout: Layout, dtype: torch.dtype) -> None:
        self._layout, self.dtype = layout, dtype

    def max(self, rows: Tensor, weight: Tensor, bias: Tensor, *, relu: bool, log: bool) -> Tensor:
        pooled = rows.new_empty(self._layout.texts, len(weight), dtype=accumulator(rows))
        for start, end, scores in self._tiles(rows, weight):
            best = self._with_bias(self._layout.max(scores).to(pooled.dtype), bias[start:end])
            pooled[:, start:end] = _activated(best, relu=relu, log=log)
        return pooled

    def max_and_entries(
        self, rows: Tensor, weight: Tensor, bias: Tensor, *, relu: bool, log: bool
    ) -> tuple[Tensor, Entries]:
        pooled = rows.new_empty(self._layout.texts, len(weight), dtype=accumulator(rows))
        kept = [_nothing(rows)]
        for start, end, scores in self._tiles(rows, weight):
            best = self._with_bias(self._layout.max(scores).to(pooled.dtype), bias[start:end])
            text, column = ((best > 0) if relu else ~self._layout.empty[:, None].expand_as(best)).nonzero(as_tuple=True)
            kept.append((self._layout.winners(scores, text, column).int(), column.int() + start, best[text, column]))
            pooled[:, start:end] = best
        return _activated(pooled, relu=relu, log=log), _joined(kept)

    def sum(self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool) -> Tensor:
        pooled = rows.new_empty(self._layout.texts, len(weight), dtype=accumulator(rows))
        for start, end, scores in self._tiles(rows, weight):
            pooled[:, start:end] = self._sum_tile(scores, bias[start:end], log=log, keep=False)[0]
        return pooled

    def sum_and_entries(
        self, rows: Tensor, weight: Tensor, bias: Tensor, *, log: bool
    ) -> tuple[Tensor, Entries, list[Span]]:
        pooled = rows.new_empty(self._layout.texts, len(weight), dtype=accumulator(rows))
        kept = [_nothing(rows)]
        dense: list[Span] = []
        for start, end, scores in self._tiles(rows, weight):
            pooled[:, start:end], entries = self._sum_tile(scores, bias[start:end], log=log, keep=True)
            if entries is None:
                dense.append((start, end))
            else:
                kept.append((entries[0].int(), entries[1].int() + start, entries[2]))
        return pooled, _joined(kept), dense

    def text_of(self, row: Tensor) -> Tensor:
        return self._layout.text_of(row)

    def score_gradients(
        self, rows: Tensor, weight: Tensor, bias: Tensor, gradient: Tensor, spans: list[Span], *, log: bool
    ) -> Iterator[tuple[Span, Tensor, Tensor]]:
        for start, end in spans:
            scores = (rows @ weight[start:end].t()).to(gradient.dtype).add_(bias[start:end])
            d_scores = self._layout.spread(gradient[:, start:end])
            d_scores = d_scores / (1 + scores.relu()) if log else d_scores
            d_scores = d_scores.where(scores > 0, 0.0)
            yield (start, end), d_scores.to(self.dtype), d_scores.sum(0)

    def _with_bias(self, pooled: Tensor, bias: Tensor) -> Tensor:
        return pooled.add_(bias).masked_fill_(self._layout.empty[:, None], 0.0)

    def _tiles(self, rows: Tensor, weight: Tensor) -> Iterator[tuple[int, int, Tensor]]:
        """``(start, end, rows @ weight[start:end].T)``; each tile overwrites the scores of the one before."""
        width = _tile_columns(rows)
        rows = rows.to(self.dtype)
        buffer = rows.new_empty(len(rows) * min(width, len(weight)))
        for start in range(0, len(weight), width):
            end = min(start + width, len(weight))
            scores = buffer[: len(rows) * (end - start)].view(len(rows), end - start)
            yield start, end, torch.mm(rows, weight[start:end].to(self.dtype).t(), out=scores)

    def _sum_tile(self, scores: Tensor, bias: Tensor, *, log: bool, keep: bool) -> tuple[Tensor, Entries | None]:
        """Pooled ``(batch, columns)``, and the positive scores if they are few and ``keep``."""
        scores = scores.to(accumulator(scores))
        best = self._with_bias(self._layout.max(scores), bias)
        text, column = (~(best <= 0)).nonzero(as_tuple=True)  # NaN stays
        if len(text) < _FEW_TERMS * best.numel():
            own = (self._layout.of_texts(scores, text, column) + bias[column, None]).relu_()
            pooled = torch.zeros_like(best)
            pooled[text, column] = (own.log1p() if log else own).sum(1)
            which, token = own.nonzero(as_tuple=True)
            return pooled, (self._layout.first_rows[text[which]] + token, column[which], own[which, token])
        scores = scores.add_(bias)
        sample, entries = scores[::16], None
        if keep and torch.count_nonzero(sample > 0) < _SPARSE_BELOW * sample.numel():
            row, column = self._layout.counted(scores > 0).nonzero(as_tuple=True)
            entries = (row, column, scores[row, column])
        scores = scores.relu_()
        return self._layout.sum(scores.log1p_() if log else scores), entries


def _tile_columns(rows: Tensor) -> int:
    if rows.device.type != "cpu":
        return _COLUMNS_ON_ACCELERATOR
    least, most = _COLUMNS_ON_CPU
    return min(max(_SCORES_ON_CPU // max(len(rows), 1) // 64 * 64, least), most)


def _activated(scores: Tensor, *, relu: bool, log: bool) -> Tensor:
    """In place."""
    scores = scores.relu_() if relu else scores
    return scores.log1p_() if log else scores


def _nothing(rows: Tensor) -> Entries:
    places = torch.empty(0, dtype=torch.int32, device=rows.device)
    return places, places, rows.new_empty(0, dtype=accumulator(rows))


def _joined(parts: Sequence[Entries]) -> Entries:
    row, column, value = (torch.cat(some) for some in zip(*parts, strict=True))
    return row, column, value
