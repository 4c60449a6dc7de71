"""The quantisers a finished model is stored with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from encoders.training.recipe import Quantization
from encoders.training.validation.retrieval import Vectors
from learned_sparse.core import Quantizer


def quantizers(
    settings: Quantization,
    defaults: Mapping[str, Quantizer | None],
    encode: Callable[[str, list[str]], Vectors],
    texts: Mapping[str, Sequence[str]],
) -> dict[str, Quantizer | None]:
    """The quantiser of each side, ``query`` and ``document``.

    A side takes the recipe's factor, else the architecture's (``defaults``), else bits calibrated on ``texts``. Weights
    that are whole numbers already (term frequencies) keep them: factor 1.
    """
    found: dict[str, Quantizer | None] = {}
    for side in ("query", "document"):
        if settings.factor is not None:
            found[side] = Quantizer(settings.factor)
        elif defaults.get(side) is not None:
            found[side] = defaults[side]
        else:
            values = encode(side, list(texts[side])).data
            whole = len(values) > 0 and np.array_equal(values, np.rint(values))
            calibrated = Quantizer(1.0) if whole else Quantizer.calibrate(values, settings.bits, settings.percentile)
            found[side] = calibrated
    return found
