"""Tokenizers of transformers that are written in Python; few checkpoints have one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class InPython:
    """A tokenizer of transformers that is written in Python, as that of Japanese BERTs, by the methods of the package
    tokenizers that encoding calls. It reports neither positions nor which texts it truncates.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer, self._max_length = tokenizer, 0

    def to_str(self) -> str:
        return repr(sorted(self._tokenizer.get_vocab().items()))

    def enable_truncation(self, max_length: int, direction: str) -> None:  # noqa: ARG002  (its own side)
        self._max_length = max_length

    def encode_batch(self, texts: list[Any]) -> list[Any]:
        ids = self._tokenizer(texts, truncation=True, max_length=self._max_length)["input_ids"]
        return [SimpleNamespace(ids=of_text, overflowing=()) for of_text in ids]
