"""Quantisation: floating-point weights to the integer impacts that Lucene stores."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from learned_sparse.core.errors import LearnedSparseError

if TYPE_CHECKING:
    from learned_sparse.core.records import SparseBatch

MAX_IMPACT = 2**31 - 1
"""Largest impact that Anserini reads (a Java int); it drops terms with larger impacts without a message."""
CALIBRATED_BITS = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Quantizer:
    """``impact = clip(round(weight * scale), 0, largest)``; ties round to even, as in numpy.

    >>> from learned_sparse.core.records import SparseBatch
    >>> batch = SparseBatch.from_dicts([{"hives": 1.26, "itch": 0.004, "skin": 40.0}])
    >>> impacts, statistics = Quantizer(scale=100.0, bits=8).quantize(batch)
    >>> impacts.row(0), statistics
    ({'hives': 126, 'skin': 255}, {'clipped': 1, 'lost_to_rounding': 1})
    """

    scale: float
    """Impact per unit of weight."""
    bits: int | None = None
    """``largest`` is ``2**bits - 1``; without bits it is the largest Java int."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise LearnedSparseError(f"quantisation factor {self.scale}: give a positive number, for instance 100")
        if self.bits is not None and not 1 <= self.bits <= 31:
            raise LearnedSparseError(f"{self.bits} bits: give 1 to 31; Lucene's impacts are Java ints")

    def quantize(
        self, batch: SparseBatch, ids: Sequence[str] | None = None, kind: str = "document"
    ) -> tuple[SparseBatch, dict[str, int]]:
        """Impacts (int32, all positive) of the weights ``batch``; a row without impacts stays as an empty row.

        Also the numbers of weights ``clipped`` to the largest impact, and of positive ones ``lost_to_rounding``.
        A NaN, infinite or negative weight raises an error that names the term and the ``kind`` of text with its id (its
        row without ``ids``).
        """
        values = batch.values
        if len(values) and not (values.min() >= 0 and values.max() < np.inf):  # False for NaN
            position = int(np.argmin(np.isfinite(values) & (values >= 0)))
            row = int(np.searchsorted(batch.indptr, position, side="right")) - 1
            name = f"{kind} {ids[row]!r}" if ids is not None else f"text {row}"
            raise LearnedSparseError(
                f"{name}: term {batch.terms[batch.indices[position]]!r} has the weight {values[position]}; weights "
                "must be finite and not negative: encode in float32 (--dtype fp32), or train the model again"
            )
        rounded = np.multiply(values, self.scale, dtype=np.float64)
        np.rint(rounded, out=rounded)
        kept = rounded >= 1
        kept_before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=kept_before[1:])
        largest = 2 ** (self.bits or 31) - 1
        impacts = np.minimum(rounded[kept], largest).astype(np.int32)
        lost = int(np.count_nonzero(values)) - len(impacts)
        statistics = {"clipped": int(np.count_nonzero(rounded > largest)), "lost_to_rounding": lost}
        kept_rows = replace(batch, indptr=kept_before[batch.indptr], indices=batch.indices[kept], values=impacts)
        return kept_rows, statistics

    @classmethod
    def calibrate(cls, values: npt.NDArray[Any], bits: int, percentile: float = 100.0) -> Quantizer:
        """Quantiser that maps the ``percentile`` of the positive ``values`` to the largest impact of ``bits``.

        With 100 none of ``values`` is clipped. With 99.9 a few very large weights do not coarsen all other impacts.

        >>> Quantizer.calibrate(np.array([0.5, 2.0, 0.0]), bits=8).scale
        127.5
        """
        if not 0 < percentile <= 100:
            raise LearnedSparseError(f"calibration percentile {percentile}: give more than 0 and at most 100")
        positive = values[values > 0].astype(np.float64)
        if not len(positive):
            raise LearnedSparseError("no positive weight to calibrate bits on; give a quantisation factor instead")
        return cls((2**bits - 1) / float(np.percentile(positive, percentile)), bits)


def calibrate_on(weights: SparseBatch, bits: int | None = None, percentile: float = 100.0) -> Quantizer:
    """``Quantizer.calibrate`` for the ``weights`` of the first texts of the input, which ``quantize`` has accepted."""
    try:
        quantizer = Quantizer.calibrate(weights.values, bits or CALIBRATED_BITS, percentile)
    except LearnedSparseError as error:
        raise LearnedSparseError(f"first {len(weights)} texts: {error}") from None
    factor, bits = quantizer.scale, quantizer.bits
    _log.info("quantiser calibrated on the first %d texts: factor %.6g, %d bits", len(weights), factor, bits)
    return quantizer
