"""Which quantiser a run uses: as asked for, as the checkpoint stores it, or calibrated on the first part."""

from __future__ import annotations

from dataclasses import dataclass

from learned_sparse.core import LearnedSparseError, Quantizer, SparseBatch, check_weights
from learned_sparse.encode.options import CALIBRATED_BITS, EncodeOptions

QUERY_QUANTIZER = Quantizer(100.0)
"""For queries of a checkpoint that stores none: two decimals of each weight, as SPLADE's authors publish theirs."""
WORD_COUNTS = Quantizer(1.0)
"""BM25 counts words: weights are whole numbers already, and must stay the same."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A quantiser that is still to be found."""

    bits: int
    percentile: float

    def find(self, weights: SparseBatch, ids: list[str]) -> Quantizer:
        """The quantiser for ``weights``, those of the first part of the whole input."""
        check_weights(weights, ids)
        try:
            return Quantizer.calibrate(weights.values, self.bits, self.percentile)
        except LearnedSparseError as error:
            raise LearnedSparseError(f"first {len(ids)} texts: {error}") from None


def choose_quantizer(options: EncodeOptions, stored: Quantizer | None, scoring: str) -> Quantizer | Calibration:
    """``--quantization-factor``, else ``--bits``, else the checkpoint's own (``stored``), else a default by side."""
    if scoring == "bm25":
        if options.quantization_factor not in {None, 1.0} or options.bits is not None:
            raise LearnedSparseError("this model is scored by BM25, which counts words: leave the quantisation away")
        return WORD_COUNTS
    if options.quantization_factor is not None:
        return Quantizer(options.quantization_factor, options.bits)
    if options.bits is not None:
        return _calibration(options, options.bits)
    if stored is not None:
        return stored
    return QUERY_QUANTIZER if options.queries else _calibration(options, CALIBRATED_BITS)


def _calibration(options: EncodeOptions, bits: int) -> Calibration:
    Quantizer(1.0, bits)  # complains about bits out of range before anything is encoded
    return Calibration(bits=bits, percentile=options.calibration)
