"""A small encoder without torch, for tests of the pipeline; run as a script it stands in for the real one."""

from __future__ import annotations

import hashlib
import os
import sys
import time
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from learned_sparse.core.encoder import Encoder
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch

TERMS = [f"t{number}" for number in range(50)]


class FakeEncoder(Encoder):
    """Each word gives one term a weight from its hash; ``empty`` alone gives an empty vector."""

    def __init__(self, side: str, quantizer: Quantizer | None = None, pause: float = 0.0, **settings: Any) -> None:
        self.terms: Sequence[str] = TERMS
        self.quantizer = quantizer
        self.description = {
            "architecture": "fake",
            "side": side,
            "scoring": "impact",
            "max_length": settings.get("max_length"),
        }
        self._pause = pause

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights between 0 and 10."""
        time.sleep(self._pause)
        table = np.zeros((len(texts), len(TERMS)), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.split():
                if word != "empty":
                    digest = hashlib.sha256(word.encode()).digest()
                    place = digest[0] % len(TERMS)
                    table[row, place] = max(table[row, place], digest[1] / 25.5)
        rows, columns = np.nonzero(table)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(texts)))]).astype(np.int64)
        return SparseBatch(indptr, columns.astype(np.int32), table[rows, columns], self.terms)


def fake_module(**fixed: Any) -> types.ModuleType:
    """What stands in for ``encoders.encoding.loading``; ``fixed`` goes to every ``FakeEncoder``."""
    module = types.ModuleType("encoders.encoding.loading")

    def load_encoder(checkpoint: str, side: str, **settings: Any) -> FakeEncoder:
        return FakeEncoder(side, **{**settings, **fixed})

    module.load_encoder = load_encoder  # type: ignore[attr-defined]
    return module


if __name__ in {"__main__", "__mp_main__"}:  # the latter in processes that were spawned from here
    sys.modules["encoders.encoding.loading"] = fake_module(pause=float(os.environ.get("FAKE_PAUSE", "0")))

if __name__ == "__main__":
    from learned_sparse.core import run_main
    from learned_sparse.encode.__main__ import main

    run_main(main)
