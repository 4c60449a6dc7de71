"""Where the words of a text are, and how many tokens each has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tokenizers import Tokenizer

from learned_sparse.core import LearnedSparseError, Word


class WordFinder:
    """A copy of a tokenizer that cuts nothing off and adds nothing."""

    def __init__(self, tokenizer: Any) -> None:
        """``tokenizer`` is of the package tokenizers, or a fast one of transformers."""
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not isinstance(backend, Tokenizer):
            raise LearnedSparseError("this tokenizer cannot say where its tokens are: save it as a tokenizer.json")
        self._tokenizer = Tokenizer.from_str(backend.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __call__(self, texts: Sequence[str]) -> list[list[Word]]:
        """The words of each text in order, as the tokenizer parts them: a punctuation mark is one by itself."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [_words(encoding) for encoding in encodings]


def _words(encoding: Any) -> list[Word]:
    tokens = zip(encoding.word_ids, encoding.offsets, strict=True)
    spans = ([span for _, span in word] for _, word in groupby(tokens, key=lambda token: token[0]))
    return [(min(start for start, _ in word), max(end for _, end in word), len(word)) for word in spans]
