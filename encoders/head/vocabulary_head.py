"""Hidden states to pooled vocabulary weights, without ever holding (batch, tokens, vocabulary).

Scores of all tokens and terms are computed in tiles of columns and pooled over the tokens of each text. Of a sparse
model, terms are screened in int8, and only those that can have weight are scored.
"""

from __future__ import annotations

import itertools
import timeit
from collections.abc import Iterator
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Pooling = Literal["sum", "max"]
Saturation = Literal["log", "none"]

_SCORES_ON_CPU = 6 * 2**20  # of a tile: 24 MB stay near the caches; 33 MB took 5 % longer
_COLUMNS_ON_CPU = (2048, 8192)  # minimum and maximum; for ten texts, 72 ms with 8,192, 78 with 2,048
_COLUMNS_OF_ONEDNN = 512  # as fast as 2,048; each tile is a new tensor, and large ones fragment the memory
_COLUMNS_ON_ACCELERATOR = 8192
_FEW_TERMS = 0.1  # share of positive maxima in a tile below which only the scores behind them are read
_SPARSE_BELOW = 0.05  # share of positive scores in a tile below which they are kept instead of computed again
_FEW_WINNERS = 0.05  # share of a tile's maxima below which each winner is searched separately
_RUN = 16  # tokens; minimum length of the runs of a maximum
_CHUNK = 16384  # winners searched at once: 8 MB of scores at 128 tokens
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
_seconds = partial(timeit.repeat, number=1, repeat=3)  # of a function without arguments, a list
_LEARNING_BATCHES = 16  # until screening is tried again


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
    scores, log, dense = TiledScores(hidden, mask, weight, bias), saturation == "log", list[tuple[int, int]]()
    learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (hidden, weight, bias))
    with torch.no_grad(), torch.autocast(hidden.device.type, enabled=False):
        result = None
        if screen and relu and (pooling == "max" or not learns):
            result = screen.pool(scores, pooling, log=log, entries=learns)
        if result is None and pooling == "max":
            result = scores.max(relu=relu, log=log, entries=learns)
        elif result is None:
            result = scores.sum(log=log, dense=dense if learns else None)
    if not learns:
        return result[0]
    from encoders.head.gradients import Pooled

    return Pooled.apply(scores.rows, weight, bias, scores, result, dense, log)  # type: ignore[no-untyped-call, no-any-return]


def pool_columns(hidden: Tensor, mask: Tensor, weight: Tensor, bias: Tensor, columns: Tensor) -> Tensor:
    """The sums of ``pool`` for the vocabulary ids ``columns`` only (no repeats); all other weights are 0."""
    if 2 * len(columns) > len(weight):
        keep = torch.zeros(len(weight), dtype=torch.bool, device=weight.device).index_fill_(0, columns, True)
        return pool(hidden, mask, weight, bias, pooling="sum").where(keep, 0.0)
    pooled = pool(hidden, mask, functional.embedding(columns, weight), bias[columns], pooling="sum")
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
    wide = torch.promote_types(hidden.dtype, torch.float32)
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


class TiledScores:
    """``rows @ weight.T + bias`` for the tokens of a batch as ``rows`` of one matrix, text after text, in tiles.

    Scores are pooled over the rows of each text to ``(texts, vocabulary)``, in float32 or wider; a text without rows
    pools to 0. On the CPU padding is dropped; pooling is one operation for each run of equally long texts. On other
    devices, where many small operations are slow, the rows include padding, which is masked: all texts have the same
    length.
    """

    def __init__(
        self, hidden: Tensor, mask: Tensor, weight: Tensor, bias: Tensor, *, drop_padding: bool | None = None
    ) -> None:
        """The arguments are those of ``pool``; ``drop_padding``: default on the CPU only."""
        device = hidden.device.type
        self.dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        """Data type of matrix products: that of autocast, or the tensor's own."""
        self.weight, self.bias = weight, bias
        self._wide = torch.promote_types(hidden.dtype, torch.float32)
        (self.texts, tokens), mask = mask.shape, mask.bool()
        drop_padding = device == "cpu" if drop_padding is None else drop_padding
        self.kept = None if drop_padding else mask.reshape(-1, 1)
        """Rows that are no padding, ``(rows, 1)``; None if all are."""
        self.empty = ~mask.any(1)
        """Texts without tokens that count, ``(texts,)``."""
        self.lengths = mask.sum(1) if drop_padding else torch.full_like(self.empty, tokens, dtype=torch.long)
        """Rows of each text, ``(texts,)``."""
        self.first_rows = self.lengths.cumsum(0) - self.lengths
        """The first row of each text, ``(texts,)``."""
        self.longest = max(int(self.lengths.max()) if drop_padding and self.texts else tokens, 1)
        self._groups: list[tuple[slice, slice, int]] = []
        """Texts, rows and tokens per text of each run of equally long texts."""
        text = row = 0
        for length, run in itertools.groupby(self.lengths.tolist() if drop_padding else [tokens] * self.texts):
            count = len(list(run))
            if length:
                self._groups.append((slice(text, text + count), slice(row, row + count * length), length))
            text, row = text + count, row + count * length
        self.rows = hidden[mask] if row < mask.numel() else hidden.reshape(-1, hidden.shape[2])
        """Hidden states ``(rows, hidden)``."""
        none = torch.empty(0, dtype=torch.int32, device=mask.device)
        self._no_entries = none, none, self.rows.new_empty(0, dtype=self._wide)
        self.text_of_row = torch.arange(self.texts, device=mask.device).repeat_interleave(self.lengths, output_size=row)

    def max(self, *, relu: bool, log: bool, entries: bool = False) -> tuple[Tensor, ...]:
        """The maxima, after ReLU and log(1 + x) if requested.

        With ``entries`` also row, column and value of the winning scores: the positive ones, or all without ReLU.
        """
        pooled = self.rows.new_empty(self.texts, len(self.weight), dtype=self._wide)
        winners = [self._no_entries] if entries else []
        for start, end, scores, best in self._tiles():
            if entries:
                learning = best > 0 if relu else ~self.empty[:, None].expand_as(best)
                text, column = learning.nonzero(as_tuple=True)
                if len(text) > _FEW_WINNERS * best.numel():
                    tokens = torch.zeros(best.shape, dtype=torch.long, device=scores.device)
                    for texts, rows, length in self._groups:  # argmax takes three times as long
                        tokens[texts] = scores[rows].view(-1, length, scores.shape[1]).max(1).indices
                    token = tokens[text, column]
                else:
                    chunks = zip(text.split(_CHUNK), column.split(_CHUNK), strict=True)
                    token = torch.cat([self._of_texts(scores, *chunk).argmax(1) for chunk in chunks])
                row = self.first_rows[text] + token  # the first one with the maximum
                winners.append((row.int(), column.int() + start, best[text, column]))
            pooled[:, start:end] = best
        pooled = pooled.relu_() if relu else pooled
        pooled = pooled.log1p_() if log else pooled
        return (pooled, *map(torch.cat, zip(*winners, strict=True))) if entries else (pooled,)

    def sum(self, *, log: bool, dense: list[tuple[int, int]] | None = None) -> tuple[Tensor, ...]:
        """Sums of the ReLU of the scores, or of its log(1 + x).

        With ``dense`` also row, column and value of the positive scores of tiles where they are few; ``dense`` gets the
        columns of the other tiles.
        """
        pooled, learning = self.rows.new_empty(self.texts, len(self.weight), dtype=self._wide), dense is not None
        positive = [self._no_entries]
        for start, end, tile, sums in self._tiles():
            scores, bias, kept = tile.to(self._wide), self.bias[start:end], None
            text, column = (~(sums <= 0)).nonzero(as_tuple=True)  # includes NaN
            sums.zero_()
            if len(text) < _FEW_TERMS * sums.numel():
                text_scores = (self._of_texts(scores, text, column) + bias[column, None]).relu_()
                values = text_scores.log1p() if log else text_scores
                wide = not learning and values.device.type in {"cpu", "cuda"}  # Apple GPUs have no float64
                sums[text, column] = values.sum(1, dtype=torch.float64 if wide else None).to(values.dtype)
                if learning:
                    entry, token = text_scores.nonzero(as_tuple=True)
                    kept = self.first_rows[text[entry]] + token, column[entry], text_scores[entry, token]
            else:
                scores = scores.add_(bias)  # -inf at padding
                sample = scores[::16]
                if learning and torch.count_nonzero(sample > 0) < _SPARSE_BELOW * sample.numel():
                    row, column = (scores > 0).nonzero(as_tuple=True)
                    kept = row, column, scores[row, column]
                scores = scores.relu_().log1p_() if log else scores.relu_()
                for texts, rows, tokens in self._groups:
                    torch.sum(scores[rows].view(-1, tokens, end - start), 1, out=sums[texts])
            pooled[:, start:end] = sums
            if kept is not None:
                positive.append((kept[0].int(), kept[1].int() + start, kept[2]))
            elif dense is not None:
                dense.append((start, end))
        return (pooled, *map(torch.cat, zip(*positive, strict=True)))

    def _tiles(self) -> Iterator[tuple[int, int, Tensor, Tensor]]:
        """``(start, end, scores, maxima)``: scores are ``rows @ weight[start:end].T``, -inf at padding.

        The maxima ``(texts, columns)`` are those of the scores with bias, 0 for a text without tokens. A tile may
        overwrite the scores of the one before.

        On the CPU, maxima of runs of tokens come first: a column is read row by row, and rows are pages apart, so that
        more of them than the processor prefetches are slow to read (85 rows of 2,048 columns 7 GB/s, runs of 17 rows 24
        GB/s). Runs may overlap, which changes no maximum.
        """
        if self.rows.device.type != "cpu":
            width = _COLUMNS_ON_ACCELERATOR
        elif by_onednn(self.rows):
            width = _COLUMNS_OF_ONEDNN
        else:
            minimum, maximum = _COLUMNS_ON_CPU
            width = min(max(_SCORES_ON_CPU // max(len(self.rows), 1) // 64 * 64, minimum), maximum)
        rows = self.rows.to(self.dtype)
        onednn = by_onednn(rows)
        buffer = rows.new_empty(0 if onednn else len(rows) * min(width, len(self.weight)))
        for start in range(0, len(self.weight), width):
            end = min(start + width, len(self.weight))
            columns = self.weight[start:end].to(self.dtype)
            if onednn:
                scores = product(rows, columns, onednn=True)
            else:
                scores = buffer[: len(rows) * (end - start)].view(len(rows), end - start)
                torch.mm(rows, columns.t(), out=scores)
            if self.kept is not None:
                scores.masked_fill_(~self.kept, float("-inf"))
            maxima = scores.new_zeros(self.texts, end - start)
            for texts, group, tokens in self._groups:
                of_texts, runs = scores[group].view(-1, tokens, end - start), tokens // _RUN
                if runs > 1 and scores.device.type == "cpu":
                    step = tokens // runs
                    of_texts = of_texts.unfold(1, tokens - (runs - 1) * step, step).amax(3)
                torch.amax(of_texts, 1, out=maxima[texts])
            maxima = maxima.to(self._wide).add_(self.bias[start:end]).masked_fill_(self.empty[:, None], 0.0)
            yield start, end, scores, maxima

    def _of_texts(self, scores: Tensor, text: Tensor, column: Tensor) -> Tensor:
        """The scores ``(n, tokens)`` of each ``text`` in ``column`` of a tile, both ``(n,)``."""
        length = self.lengths[text, None]
        token = torch.arange(self.longest, device=scores.device)
        text_scores = scores[self.first_rows[text, None] + token.minimum(length - 1), column[:, None]]
        return text_scores.masked_fill_(token >= length, float("-inf"))


def product(rows: Tensor, weight: Tensor, *, onednn: bool) -> Tensor:
    """``rows @ weight.T``, both of one data type; ``onednn``: whether ``by_onednn(rows)``.

    In float32 on a CPU with AVX-512 by oneDNN, which adds up each score in the same order for any two or more rows and
    columns (a single one is doubled). The order of MKL, which ``torch.mm`` calls, depends on the shape, and MKL is
    slower there; with AVX2 it is a tenth faster.
    """
    if not onednn:
        return rows @ weight.t()
    twice = [each.repeat(2, 1) if len(each) == 1 else each for each in (rows, weight)]
    scores: Tensor = torch.ops.mkldnn._linear_pointwise(*twice, None, "none", [], "")  # noqa: SLF001
    return scores[: len(rows), : len(weight)]


def by_onednn(rows: Tensor) -> bool:
    """Whether ``product`` adds up the scores of ``rows`` in an order that does not depend on the shape."""
    return (
        rows.dtype == torch.float32
        and rows.device.type == "cpu"
        and torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() != "AVX2"
    )


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

    def pool(
        self, scores: TiledScores, pooling: Pooling, *, log: bool, entries: bool = False
    ) -> tuple[Tensor, ...] | None:
        """``scores.max`` or ``scores.sum`` (``pooling``) with ReLU; None if these are to be called.

        ``entries``: for a model that learns, max only.
        """
        rows, dtypes = scores.rows, {scores.dtype, scores.rows.dtype, scores.weight.dtype, scores.bias.dtype}
        known = dtypes == {torch.bfloat16} or (dtypes == {torch.float32} and by_onednn(rows))
        known = known and rows.device.type == "cpu"
        if entries and self.used is False and self._calls % _LEARNING_BATCHES == 0:
            self.used = None
        self._calls += 1
        if not len(rows):
            return None
        screened = partial(self._found, scores, pooling, log=log, entries=entries)
        if self.used is None and self._calls > 1:
            if known and self._exact is None:
                self._exact = _exact_int8(rows)
            result, self.used = screened() if known and self._exact else None, False
            if result is not None:
                plain = partial(scores.max, relu=True, entries=entries) if pooling == "max" else partial(scores.sum)
                (expected, *_), (weights, *_) = plain(log=log), result
                same = torch.equal(*((expected, weights) if pooling == "max" else (expected > 0, weights > 0)))
                self.used = same and min(_seconds(screened)) < min(_seconds(partial(plain, log=log)))
            self._rounded = self._rounded if self.used else None
        return screened() if self.used and known else None

    def candidates(self, scores: TiledScores) -> tuple[Tensor, Tensor]:
        """The terms that can have weight, ``(texts, vocabulary)`` of bool; the rows of each text, padded."""
        rows, weight, bias = scores.rows, scores.weight, scores.bias
        token = torch.arange(scores.longest, device=rows.device).minimum((scores.lengths[:, None] - 1).clamp(min=0))
        # a text ends with copies of its last row, which change no maximum
        kept = rows[(scores.first_rows[:, None] + token).clamp(max=len(rows) - 1)]
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
        onednn = by_onednn(kept)
        if candidates.count_nonzero() > _MOST_CANDIDATES * candidates.numel():
            return None
        text, column = candidates.nonzero(as_tuple=True)
        counts = torch.bincount(text, minlength=len(kept)).tolist()
        pooled, token = [kept.new_empty(0).float()], [text.new_empty(0)]
        for states, length, columns in zip(kept, scores.lengths, column.split(counts), strict=True):
            for part in columns.split(_SCORED_COLUMNS) if len(columns) else ():
                width = 1 << max(len(part) - 1, 63).bit_length()  # oneDNN prepares itself, and keeps memory, for each
                padded = functional.pad(part, (0, width - len(part)))
                products = product(states, weight[padded], onednn=onednn)[:, : len(part)]
                if entries:
                    best, first = products.max(0)
                    pooled.append(best.float() + bias[part])
                    token.append(first)
                elif pooling == "max":
                    pooled.append(products.amax(0).float() + bias[part])
                else:
                    positive = (products[:length].float() + bias[part]).relu_()
                    positive = positive.log1p_() if log else positive
                    pooled.append(positive.sum(0, dtype=torch.float64).float())
        values, winners = torch.cat(pooled), tuple[Tensor, ...]()
        if entries:
            learning = values > 0
            row = scores.first_rows[text] + torch.cat(token)
            winners = (row[learning].int(), column[learning].int(), values[learning])
        if pooling == "max":
            values = values.relu_().log1p_() if log else values.relu_()
        return values.new_zeros(len(kept), len(weight)).index_put_((text, column), values), *winners


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
    slow = 4 * min(_seconds(partial(product, rows, wide, onednn=by_onednn(rows))))
    exact = torch.equal(torch._int_mm(integers[:17], tile.t()), (tile[:, 0].int() * 127 * size).expand(17, -1))  # noqa: SLF001
    return exact and min(_seconds(partial(torch._int_mm, integers, tile.t()))) < slow  # noqa: SLF001
