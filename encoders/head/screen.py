"""The vocabulary head of a sparse model: terms are screened in int8, and only those that can have weight are scored."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from encoders.head.tiled_scores import Pooling, TiledScores, activated, by_onednn, product

MIN_TERMS = 8192
"""Vocabularies below it have a head that takes less time than the screening of its terms."""
_PRODUCTS = 400_000  # of an int8 product, whose int32 result stays in the cache: four times as many take twice as long
_COLUMNS = 128  # of an int8 product, at least
_SCORED_COLUMNS = 8192  # of one text at once
_MOST_CANDIDATES = 0.1  # share of all terms; more is no sparse model, and takes memory
_SMALLEST_SCALE = 1e-28  # its inverse is finite in float32, and a flushed number is much less
_MAX_EXPONENT = 12
_LARGEST_PRODUCT = 1e38  # products of longer vectors may overflow on the way to a small sum
_MARGIN = 1e-2  # below 1, the distance of two integers
_TRIALS = 3


class Screen:
    """Finds the terms that can have weight in a text, for a decoder that does not change any more.

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
    ``used`` says which was faster: later batches are pooled in that way.
    """

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        """``weight`` is ``(vocabulary, hidden)``, ``bias`` ``(vocabulary,)``; neither may change any more."""
        self.weight, self.bias = weight, bias
        self.used: bool | None = None
        """Whether ``pool`` screens; None until it is known."""
        self._warm = False
        self._rounded: tuple[Tensor, Tensor, Tensor, Tensor] | None = None
        """Factors of the dimensions, limits of the terms, the longest row, and the decoder in int8."""

    def pool(self, hidden: Tensor, scores: TiledScores, pooling: Pooling, *, log: bool) -> Tensor:
        """``scores.pooled`` with ReLU for ``hidden`` ``(texts, tokens, hidden)``."""
        if self.used:
            return self._screened(hidden, scores.layout.mask, pooling, log=log)

        def plain() -> Tensor:
            rows = scores.layout.select(hidden)
            return scores.pooled(rows, self.weight, self.bias, pooling, relu=True, log=log)

        if self.used is None and self._warm:
            self.used = self._pays(plain, hidden, scores, pooling, log)
            self._rounded = self._rounded if self.used else None
        self._warm = True
        return plain()

    def candidates(self, kept: Tensor, mask: Tensor) -> Tensor:
        """The terms that can have weight, ``(texts, vocabulary)`` of bool.

        ``kept`` is ``(texts, tokens, hidden)`` with a token that counts in each place, see ``_repeat_tokens``.
        """
        if self._rounded is None:
            self._rounded = self._round_decoder(kept)
        factors, limits_of_terms, longest, decoder = self._rounded
        texts, tokens, size = kept.shape
        kept = kept.float() * factors
        step = kept.abs().amax((1, 2), keepdim=True).clamp(min=_SMALLEST_SCALE) / 127
        exact = kept / step
        integers = exact.round()
        slack = 1 + 2.0**-24 * (2 * size + 64)
        rounded, error = (part.norm(dim=2).amax(1) * slack for part in (integers, exact - integers))
        error += (rounded + error) * (slack - 1)
        limits = torch.stack([1 / step.view(-1), error, rounded], 1) @ limits_of_terms - _MARGIN
        limits[~((rounded + error) * step.view(-1) * longest <= _LARGEST_PRODUCT)] = -torch.inf
        rows, largest = integers.to(torch.int8).view(-1, size), limits.new_empty(limits.shape, dtype=torch.int32)
        columns = max(_PRODUCTS // len(rows) // _COLUMNS, 1) * _COLUMNS
        buffer = largest.new_empty(len(rows) * min(columns, len(decoder)))
        for tile, maxima in zip(decoder.split(columns), largest.split(columns, 1), strict=True):
            products = buffer[: len(rows) * len(tile)].view(len(rows), -1)
            torch.amax(torch._int_mm(rows, tile.t(), out=products).view(texts, tokens, -1), 1, out=maxima)  # noqa: SLF001
        return ~(largest <= limits) & mask.any(1, keepdim=True)

    def _screened(self, hidden: Tensor, mask: Tensor, pooling: Pooling, *, log: bool) -> Tensor:
        kept = _repeat_tokens(hidden, mask)
        text, column = self.candidates(kept, mask).nonzero(as_tuple=True)
        counts, pooled = torch.bincount(text, minlength=len(hidden)).tolist(), [hidden.new_empty(0).float()]
        for rows, counted, columns in zip(kept, mask, column.split(counts), strict=True):
            for part in columns.split(_SCORED_COLUMNS) if len(columns) else ():
                width = 1 << max(len(part) - 1, 63).bit_length()  # oneDNN prepares itself, and keeps memory, for each
                padded = functional.pad(part, (0, width - len(part)))
                scores = product(rows, self.weight[padded])[:, : len(part)]
                if pooling == "max":
                    pooled.append(scores.amax(0).float() + self.bias[part])
                else:
                    positive = activated(scores[counted].float() + self.bias[part], relu=True, log=log)
                    pooled.append(positive.sum(0, dtype=torch.float64).float())
        values = torch.cat(pooled)
        values = activated(values, relu=True, log=log) if pooling == "max" else values
        return values.new_zeros(len(hidden), len(self.weight)).index_put_((text, column), values)

    def _round_decoder(self, kept: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """See ``_rounded``; limits and integers of a row are in units of its scale.

        Powers of two as ``factors`` of hidden states, and their inverses of rows, change no product. They reduce the
        dimensions with outliers in ``kept``, which would make the step of all dimensions coarse. The three ``limits``
        of a term are multiplied by ``1 / step``, ‖δ‖ and ‖ĥ‖ of a text.
        """
        largest = kept.float().abs().amax((0, 1))
        exponents = ((largest / largest.median()).log2() * 0.75).round().nan_to_num(0, 0, 0).clamp(0, _MAX_EXPONENT)
        factors, tiles, limits, longest = torch.exp2(-exponents), [], [], torch.zeros((), dtype=torch.float64)
        for weight, bias in zip(self.weight.split(_COLUMNS), self.bias.split(_COLUMNS), strict=True):
            weight, bias = weight.double() / factors, bias.double()
            scale = weight.abs().amax(1).clamp(min=_SMALLEST_SCALE) / 127
            exact = weight / scale[:, None]
            integers = exact.round()
            tiles.append(integers.to(torch.int8))
            longest = torch.maximum(longest, (exact.norm(dim=1) * scale).max())
            zero = bias + bias.abs() * 2.0**-18 + len(factors) * 2.0**-126
            limits.append(torch.stack([-zero / scale, -exact.norm(dim=1), -(exact - integers).norm(dim=1)]).float())
        all_limits = torch.cat(limits, 1)
        return factors, all_limits.masked_fill_(all_limits.isinf(), torch.nan), longest.float(), torch.cat(tiles)

    def _pays(
        self, plain: Callable[[], Tensor], hidden: Tensor, scores: TiledScores, pooling: Pooling, log: bool
    ) -> bool:
        """Whether screening gives what ``plain`` gives in less time."""
        dtypes = {hidden.dtype, self.weight.dtype, self.bias.dtype, scores.dtype}
        if hidden.device.type != "cpu" or not (dtypes == {torch.bfloat16} or (len(dtypes) == 1 and by_onednn(hidden))):
            return False
        if not _exact_int8(scores.layout.select(hidden)):
            return False

        def screened() -> Tensor:
            return self._screened(hidden, scores.layout.mask, pooling, log=log)

        kept, mask = _repeat_tokens(hidden, scores.layout.mask), scores.layout.mask
        if self.candidates(kept, mask).float().mean() > _MOST_CANDIDATES:
            return False
        expected, result = plain(), screened()
        same = torch.equal(expected, result) if pooling == "max" else torch.equal(expected > 0, result > 0)
        seconds = [(_seconds(screened), _seconds(plain)) for _ in range(_TRIALS)]
        return same and min(first for first, _ in seconds) < min(second for _, second in seconds)


def _repeat_tokens(hidden: Tensor, mask: Tensor) -> Tensor:
    """``hidden`` with the first token of ``mask`` in place of those that do not count: this changes no maximum."""
    first = hidden[torch.arange(len(hidden)), mask.int().argmax(1)]
    return hidden.where(mask[:, :, None], first[:, None])


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
