"""Choice of the quantiser: given by the user, stored with the model, or calibrated on the first documents."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from learned_sparse.core.encoder import Encoder, Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer, check_weights
from learned_sparse.core.records import SparseBatch

CALIBRATED_BITS = 8
QUERY_QUANTIZER = Quantizer(100.0)
"""For queries of a model without a stored quantiser: two decimals of each weight, as in the published SPLADE models."""
WORD_COUNTS = Quantizer(1.0)
"""For BM25, whose weights are word counts: integers already."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A quantiser to be calibrated on the first texts; see ``Quantizer.calibrate``."""

    bits: int = CALIBRATED_BITS
    percentile: float = 100.0

    def __post_init__(self) -> None:
        Quantizer(1.0, self.bits)  # raises before anything is encoded if the bits are out of range

    def find(self, weights: SparseBatch, ids: Sequence[str]) -> Quantizer:
        """Quantiser for ``weights``, those of the texts ``ids`` at the beginning of the input."""
        check_weights(weights, ids)
        try:
            quantizer = Quantizer.calibrate(weights.values, self.bits, self.percentile)
        except LearnedSparseError as error:
            raise LearnedSparseError(f"first {len(ids)} texts: {error}") from None
        _log.info(
            "quantiser calibrated on the first %d texts: factor %.6g, %d bits", len(ids), quantizer.scale, self.bits
        )
        return quantizer


def query_quantizer(encoder: Encoder) -> Quantizer:
    """Quantiser of queries unless another one is requested: ``WORD_COUNTS``, the encoder's, or ``QUERY_QUANTIZER``."""
    if encoder.description.get("scoring", "impact") == "bm25":
        return WORD_COUNTS
    return encoder.quantizer or QUERY_QUANTIZER


def choose_quantizer(
    side: Side, encoder: Encoder, *, factor: float | None = None, bits: int | None = None, percentile: float = 100.0
) -> Quantizer | Calibration:
    """The first of these that is given: ``factor``, ``bits`` (to be calibrated), the encoder's quantiser, a default.

    The word counts of BM25 are never multiplied.
    """
    if encoder.description.get("scoring", "impact") == "bm25":
        if factor not in {None, 1.0} or bits is not None:
            raise LearnedSparseError(
                "this model is scored by BM25, which counts words: omit --bits and --quantization-factor"
            )
        return WORD_COUNTS
    if factor is not None:
        return Quantizer(factor, bits)
    if bits is not None:
        return Calibration(bits=bits, percentile=percentile)
    if side == "query":
        return query_quantizer(encoder)
    return encoder.quantizer or Calibration(percentile=percentile)
