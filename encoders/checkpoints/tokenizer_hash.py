"""A hash of all that decides how a tokenizer cuts text."""

from __future__ import annotations

import hashlib
from typing import Any


def tokenizer_sha256(tokenizer: Any) -> str:
    """Of a tokenizer of transformers or of tokenizers; truncation and padding, which each call sets, do not count."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None and hasattr(tokenizer, "to_str"):
        backend = tokenizer
    if backend is None:  # one in Python
        text = repr(sorted(tokenizer.get_vocab().items()))
    else:
        copy = type(backend).from_str(backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        text = copy.to_str()
    return hashlib.sha256(text.encode()).hexdigest()
