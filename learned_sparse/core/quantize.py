"""Weights to impacts: the integers that Lucene stores, and how much is lost on the way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch

MAX_IMPACT = 2**31 - 1
"""The largest weight Anserini reads: anything above overflows a Java int, and the term is dropped in silence."""


@dataclass(frozen=True, kw_only=True)
class QuantizationStatistics:
    """What quantising did to the positive weights of a batch."""

    postings: int
    """Impacts that remain."""
    clipped: int
    """Weights above the largest impact, set to it."""
    lost_to_rounding: int
    """Positive weights that became 0, so that the term is gone from its text."""


@dataclass(frozen=True)
class Quantizer:
    """``impact = clip(round(weight * scale), 0, largest)``; ties round to even, as numpy does.

    >>> batch = SparseBatch.from_dicts([{"hives": 1.26, "itch": 0.004, "skin": 40.0}])
    >>> impacts, statistics = Quantizer(scale=100.0, bits=8).quantize(batch)
    >>> impacts.row(0), statistics.clipped, statistics.lost_to_rounding
    ({'hives': 126, 'skin': 255}, 1, 1)
    """

    scale: float
    """Impact per unit of weight."""
    bits: int | None = None
    """``largest`` is ``2**bits - 1``; without bits it is what a Java int holds."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise LearnedSparseError(f"quantisation factor {self.scale}: give a positive number, for instance 100")
        if self.bits is not None and not 1 <= self.bits <= 31:
            raise LearnedSparseError(f"{self.bits} bits: give 1 to 31; Lucene's impacts are Java ints")

    @property
    def largest(self) -> int:
        """The largest impact this gives."""
        return MAX_IMPACT if self.bits is None else int(2**self.bits - 1)

    def quantize(
        self, batch: SparseBatch, ids: Sequence[str] | None = None
    ) -> tuple[SparseBatch, QuantizationStatistics]:
        """Impacts (int32, all positive) of ``batch``, a row that lost all its terms staying as an empty row.

        A NaN, infinite or negative weight is an error that names the document (its place if without ``ids``) and term.
        """
        check_weights(batch, ids)
        rounded = np.multiply(batch.values, self.scale, dtype=np.float64)
        np.rint(rounded, out=rounded)
        kept = rounded >= 1
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        impacts = np.minimum(rounded[kept], self.largest).astype(np.int32)
        statistics = QuantizationStatistics(
            postings=len(impacts),
            clipped=int(np.count_nonzero(rounded > self.largest)),
            lost_to_rounding=int(np.count_nonzero(batch.values)) - len(impacts),
        )
        return SparseBatch(before[batch.indptr], batch.indices[kept], impacts, batch.terms), statistics

    @classmethod
    def calibrate(cls, values: npt.NDArray[Any], bits: int, percentile: float = 100.0) -> Quantizer:
        """The quantiser that maps the ``percentile`` of the positive ``values`` to the largest impact of ``bits``.

        At 100 nothing seen is clipped; at 99.9 a rare huge weight does not take the steps away from all others.

        >>> Quantizer.calibrate(np.array([0.5, 2.0, 0.0]), bits=8).scale
        127.5
        """
        if not 0 < percentile <= 100:
            raise LearnedSparseError(f"calibration percentile {percentile}: give more than 0 and at most 100")
        positive = values[values > 0].astype(np.float64)
        if not len(positive):
            raise LearnedSparseError("no positive weight to calibrate bits on; give a quantisation factor instead")
        return cls((2**bits - 1) / float(np.percentile(positive, percentile)), bits)

    def to_json(self) -> dict[str, Any]:
        """``{"scale": ..., "bits": ...}``, as checkpoints and manifests keep it."""
        return {"scale": self.scale, "bits": self.bits}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Quantizer:
        """The inverse of ``to_json``."""
        return cls(float(content["scale"]), content["bits"])


def check_weights(batch: SparseBatch, ids: Sequence[str] | None = None) -> None:
    """Raise if a weight is NaN, infinite or negative."""
    values = batch.values
    if not len(values) or (values.min() >= 0 and values.max() < np.inf):  # a NaN is neither
        return
    place = int(np.argmin(np.isfinite(values) & (values >= 0)))
    row = int(np.searchsorted(batch.indptr, place, side="right")) - 1
    name = f"document {ids[row]!r}" if ids is not None else f"text {row}"
    raise LearnedSparseError(
        f"{name}: term {batch.terms[batch.indices[place]]!r} has the weight {batch.values[place]}; weights are finite "
        "and not negative, so the model is at fault: encode in float32, or train it anew"
    )
