"""A small encoder without torch for tests of the pipeline."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import encoders.encoding.loading
from learned_sparse.core.encoder import Encoder, Word
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch

TERMS = [f"t{number}" for number in range(50)]


class FakeEncoder(Encoder):
    """Each word gives one term a weight between 0 and 10 from its hash; the word ``empty`` gives no weight."""

    description: dict[str, Any]

    def __init__(self, side: str, quantizer: Quantizer | None = None, **settings: Any) -> None:
        self.terms: Sequence[str] = TERMS
        self.quantizer = quantizer
        self.description = {
            "architecture": "fake",
            "side": side,
            "scoring": "impact",
            "max_length": settings.get("max_length"),
        }

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        table = np.zeros((len(texts), len(TERMS)), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.split():
                if word != "empty":
                    digest = hashlib.sha256(word.encode()).digest()
                    column = digest[0] % len(TERMS)
                    table[row, column] = max(table[row, column], digest[1] / 25.5)
        rows, columns = np.nonzero(table)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(texts)))]).astype(np.int64)
        return SparseBatch(indptr, columns.astype(np.int32), table[rows, columns], self.terms)


class WordEncoder(FakeEncoder):
    """A fake encoder that reports its words, each of one token."""

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:
        return [[(word.start(), word.end(), 1) for word in re.finditer(r"\S+", text)] for text in texts]


def load_fake(checkpoint: str, side: str, **settings: Any) -> FakeEncoder:
    """Replacement for ``encoders.encoding.loading.load_encoder``."""
    return FakeEncoder(side, **settings)


def install_loader(monkeypatch: pytest.MonkeyPatch, load_encoder: Callable[..., Encoder] = load_fake) -> None:
    """Make ``learned_sparse.core.load_encoder`` call the given function, without importing torch."""
    monkeypatch.setitem(vars(encoders.encoding.loading), "load_encoder", load_encoder)
