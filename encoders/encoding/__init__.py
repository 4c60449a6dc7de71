"""Room encoders.encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from encoders.encoding.bag_of_words_encoder import TOKENIZER, read_tokenizer
    from encoders.encoding.batching import BatchSize
    from encoders.encoding.encoder import CheckpointEncoder
    from encoders.encoding.loading import load_encoder
    from encoders.encoding.pairs import tokenize_texts

_MODULES = {
    "load_encoder": "loading",
    "tokenize_texts": "pairs",
    "read_tokenizer": "bag_of_words_encoder",
    "TOKENIZER": "bag_of_words_encoder",
    "CheckpointEncoder": "encoder",
    "BatchSize": "batching",
}

__all__ = ["TOKENIZER", "BatchSize", "CheckpointEncoder", "load_encoder", "read_tokenizer", "tokenize_texts"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
