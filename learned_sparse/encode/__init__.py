"""Room learned_sparse.encode."""

from __future__ import annotations

from learned_sparse.encode.options import PART_SIZE, EncodeOptions
from learned_sparse.encode.parts import windows
from learned_sparse.encode.quantizers import QUERY_QUANTIZER, WORD_COUNTS, Calibration, choose_quantizer
from learned_sparse.encode.queries import WINDOW
from learned_sparse.encode.setup import load_side

__all__ = [
    "PART_SIZE",
    "QUERY_QUANTIZER",
    "WINDOW",
    "WORD_COUNTS",
    "Calibration",
    "EncodeOptions",
    "choose_quantizer",
    "load_side",
    "windows",
]
