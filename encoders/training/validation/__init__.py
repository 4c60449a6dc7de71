"""Room encoders.training.validation.validation."""

from __future__ import annotations

from encoders.training.validation.calibration import quantizers
from encoders.training.validation.retrieval import Vectors, encode, search
from encoders.training.validation.validation import is_better

__all__ = ["Vectors", "encode", "is_better", "quantizers", "search"]
