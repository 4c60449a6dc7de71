"""The vocabulary head of a sparse model: terms are screened in int8, and only those that can have weight are scored."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from encoders.head.vocabulary_head import Pooling, TiledScores, activated, by_onednn, product

MIN_TERMS = 8192
"""Vocabularies below it have a head that takes less time than the screening of its terms."""
_PRODUCTS = 400_000  # of an int8 product, whose int32 result stays in the cache: four times as many take twice as long
_COLUMNS = 128  # of an int8 product, at least
_ROUNDED_TERMS = 512  # at once
_SCORED_COLUMNS = 8192  # of one text at once
_MOST_CANDIDATES = 0.1  # share of all terms; more is no sparse model, and takes memory
_SMALLEST_SCALE = 1e-28  # its inverse is finite in float32, and a flushed number is much less
_MAX_EXPONENT = 12
_LARGEST_PRODUCT = 1e38  # products of longer vectors may overflow on the way to a small sum
_MARGIN = 1e-2  # below 1, the distance of two integers
_TRIALS = 3
_LEARNING_BATCHES = 16  # until screening is tried again


class Screen:
    """Finds the terms that can have weight in a text.

    Hidden states h and rows w of the decoder are rounded to int8, with a scale for each text and each row: h = ĥ + δ,
    w = ŵ + ε. By Cauchy and Schwarz |h·w - ĥ·ŵ| = |δ·w + ĥ·ε| <= ‖δ‖‖w‖ + ‖ĥ‖‖ε‖, and ĥ·ŵ, a product of integers, is
    exact. A sum of d products in float32, in any order, is off by at most 2dμ‖h‖‖w‖ + dη: μ = 2^-24, and η = 2^-126
    where tiny numbers are flushed to zero (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
    Rounding it to bf16 does not carry it past -b, where b, the bias, is a bf16 number. So a term can have weight only
    if ĥ·ŵ of a token, plus these bounds, plus b, is above 0: no other term is scored. The bounds are computed in
    float32, too; a further 64μ and ``_MARGIN`` cover their own rounding. NaN and overflow make a term a candidate.

    Therefore ``pool`` returns what ``TiledScores`` returns: the same terms, with scores from the same products, whose
    bits do not depend on the other terms (``product``) unless they overflow or underflow. Sums over tokens are added up
    in float64, perhaps in another order.

    That pays for a sparse model on a processor with fast int8 products. The second batch is pooled in both ways, and
    ``used`` says which was faster: later batches are pooled in that way. A model that learns is tried again, and its
    decoder is rounded again after each update.
    """

    used: bool | None = None
    """Whether terms are screened; None until it is known."""
    _calls = _version = 0
    _exact: bool | None = None
    _weight = _bias = torch.empty(0)
    _rounded: tuple[Tensor, Tensor, Tensor, Tensor] | None = None
    """Factors of the dimensions, limits of the terms, the longest row, and the decoder in int8."""

    def pool(self, scores: TiledScores, pooling: Pooling, *, log: bool, entries: bool = False) -> tuple[Tensor, ...]:
        """``scores.max`` or ``scores.sum`` (``pooling``) with ReLU; ``entries``: for a model that learns, max only."""
        plain = partial(scores.max, relu=True, entries=entries) if pooling == "max" else partial(scores.sum)
        plain, rows = partial(plain, log=log), scores.rows
        screened = partial(self._found, scores, pooling, log=log, entries=entries)
        dtypes = {scores.dtype, rows.dtype, scores.weight.dtype, scores.bias.dtype}
        known = dtypes == {torch.bfloat16} or (dtypes == {torch.float32} and by_onednn(rows))
        known = known and rows.device.type == "cpu"
        if entries and self.used is False and self._calls % _LEARNING_BATCHES == 0:
            self.used = None
        self._calls += 1
        if not len(rows):
            return plain()
        if self.used is None and self._calls > 1:
            self.used = known and self._pays(plain, screened, rows, exact=pooling == "max")
            self._rounded = self._rounded if self.used else None
        result = screened() if self.used and known else None
        return plain() if result is None else result

    def candidates(self, scores: TiledScores) -> tuple[Tensor, Tensor]:
        """The terms that can have weight, ``(texts, vocabulary)`` of bool; the rows of each text, padded."""
        kept, weight, bias = scores.padded(), scores.weight, scores.bias
        version = 0 if weight.is_inference() else weight._version  # noqa: SLF001
        if weight is not self._weight or version != self._version or not torch.equal(bias, self._bias):
            self._weight, self._version, self._bias, self._rounded = weight, version, bias.clone(), None
        rounded = self._rounded
        if rounded is None:
            rounded = self._rounded = _round_decoder(kept, weight, bias)
        factors, limits_of_terms, longest, decoder = rounded
        texts, tokens, size = kept.shape
        states = kept.float() * factors
        step = states.abs().amax((1, 2), keepdim=True).clamp(min=_SMALLEST_SCALE) / 127
        exact = states / step
        integers = exact.round()
        slack = 1 + 2.0**-24 * (2 * size + 64)
        length, error = (part.norm(dim=2).amax(1) * slack for part in (integers, exact - integers))
        error += (length + error) * (slack - 1)
        limits = torch.stack([1 / step.view(-1), error, length], 1) @ limits_of_terms - _MARGIN
        limits[~((length + error) * step.view(-1) * longest <= _LARGEST_PRODUCT)] = -torch.inf
        int8, largest = integers.to(torch.int8).view(-1, size), limits.new_empty(limits.shape, dtype=torch.int32)
        columns = max(_PRODUCTS // len(int8) // _COLUMNS, 1) * _COLUMNS
        buffer = largest.new_empty(len(int8) * min(columns, len(decoder)))
        for tile, maxima in zip(decoder.split(columns), largest.split(columns, 1), strict=True):
            products = buffer[: len(int8) * len(tile)].view(len(int8), -1)
            torch.amax(torch._int_mm(int8, tile.t(), out=products).view(texts, tokens, -1), 1, out=maxima)  # noqa: SLF001
        return ~(largest <= limits) & ~scores.empty[:, None], kept

    def _found(
        self, scores: TiledScores, pooling: Pooling, *, log: bool, entries: bool = False
    ) -> tuple[Tensor, ...] | None:
        """What ``scores.max`` and ``scores.sum`` return; None for too many candidates."""
        weight, bias = scores.weight, scores.bias
        candidates, kept = self.candidates(scores)
        if candidates.count_nonzero() > _MOST_CANDIDATES * candidates.numel():
            return None
        text, column = candidates.nonzero(as_tuple=True)
        counts = torch.bincount(text, minlength=len(kept)).tolist()
        pooled, token = [kept.new_empty(0).float()], [text.new_empty(0)]
        for states, length, columns in zip(kept, scores.lengths, column.split(counts), strict=True):
            for part in columns.split(_SCORED_COLUMNS) if len(columns) else ():
                width = 1 << max(len(part) - 1, 63).bit_length()  # oneDNN prepares itself, and keeps memory, for each
                padded = functional.pad(part, (0, width - len(part)))
                products = product(states, weight[padded])[:, : len(part)]
                if entries:
                    best, first = products.max(0)
                    pooled.append(best.float() + bias[part])
                    token.append(first)
                elif pooling == "max":
                    pooled.append(products.amax(0).float() + bias[part])
                else:
                    positive = activated(products[:length].float() + bias[part], relu=True, log=log)
                    pooled.append(positive.sum(0, dtype=torch.float64).float())
        values, winners = torch.cat(pooled), tuple[Tensor, ...]()
        if entries:
            learning = values > 0
            row = scores.first_rows[text] + torch.cat(token)
            winners = (row[learning].int(), column[learning].int(), values[learning])
        values = activated(values, relu=True, log=log) if pooling == "max" else values
        return values.new_zeros(len(kept), len(weight)).index_put_((text, column), values), *winners

    def _pays(
        self,
        plain: Callable[[], tuple[Tensor, ...]],
        screened: Callable[[], tuple[Tensor, ...] | None],
        rows: Tensor,
        *,
        exact: bool,
    ) -> bool:
        """Whether screening gives what ``plain`` gives in less time."""
        if self._exact is None:
            self._exact = _exact_int8(rows)
        result = screened() if self._exact else None
        if result is None:
            return False
        expected, weights = plain()[0], result[0]
        same = torch.equal(expected, weights) if exact else torch.equal(expected > 0, weights > 0)
        seconds = [(_seconds(screened), _seconds(plain)) for _ in range(_TRIALS)]
        return same and min(first for first, _ in seconds) < min(second for _, second in seconds)


def _round_decoder(kept: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See ``Screen._rounded``; limits and integers of a row are in units of its scale.

    Powers of two as ``factors`` of hidden states, and their inverses of rows, change no product. They reduce the
    dimensions with outliers in ``kept``, which would make the step of all dimensions coarse. The three ``limits``
    of a term are multiplied by ``1 / step``, ‖δ‖ and ‖ĥ‖ of a text.
    """
    largest = kept.float().abs().amax((0, 1))
    exponents = ((largest / largest.median()).log2() * 0.75).round().nan_to_num(0, 0, 0).clamp(0, _MAX_EXPONENT)
    factors, tiles, limits, longest = torch.exp2(-exponents), [], [], torch.zeros((), dtype=torch.float64)
    for part, border in zip(weight.split(_ROUNDED_TERMS), bias.split(_ROUNDED_TERMS), strict=True):
        wide, border = part.double() / factors, border.double()
        scale = wide.abs().amax(1).clamp(min=_SMALLEST_SCALE) / 127
        exact = wide / scale[:, None]
        integers = exact.round()
        tiles.append(integers.to(torch.int8))
        longest = torch.maximum(longest, (exact.norm(dim=1) * scale).max())
        zero = border + border.abs() * 2.0**-18 + len(factors) * 2.0**-126
        limits.append(torch.stack([-zero / scale, -exact.norm(dim=1), -(exact - integers).norm(dim=1)]).float())
    all_limits = torch.cat(limits, 1)
    return factors, all_limits.masked_fill_(all_limits.isinf(), torch.nan), longest.float(), torch.cat(tiles)


def _exact_int8(rows: Tensor) -> bool:
    """Whether int8 products are exact (without VNNI, some add up in 16 bits), and not slow (some are plain loops)."""
    size = rows.shape[1]
    integers = torch.full((max(len(rows), 17), size), 127, dtype=torch.int8)
    tile = torch.full((_COLUMNS, size), 127, dtype=torch.int8)
    tile[::2] = -127
    wide = tile.to(rows.dtype)
    slow = 4 * min(_seconds(lambda: product(rows, wide)) for _ in range(_TRIALS))
    exact = torch.equal(torch._int_mm(integers[:17], tile.t()), (tile[:, 0].int() * 127 * size).expand(17, -1))  # noqa: SLF001
    return exact and min(_seconds(lambda: torch._int_mm(integers, tile.t())) for _ in range(_TRIALS)) < slow  # noqa: SLF001


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
