"""Where the tokens of a text are: its words, and the explanation of its weights token by token."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from tokenizers import Tokenizer

from learned_sparse.core.encoder import Word
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Reading, Share, Sources, SparseBatch, Token

Entry = tuple[int, Share]
"""A dimension, and the contribution of one token to its weight."""


class WordFinder:
    """A copy of a tokenizer without truncation, padding and special tokens."""

    def __init__(self, tokenizer: Any) -> None:
        """``tokenizer`` is one of the package tokenizers, or a fast one of transformers."""
        backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not isinstance(backend, Tokenizer):
            raise LearnedSparseError("this tokenizer does not report token positions: save it as a tokenizer.json")
        self._tokenizer = Tokenizer.from_str(backend.to_str())
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def __call__(self, texts: Sequence[str]) -> list[list[Word]]:
        """Words of each text in order, as the tokenizer splits them; a punctuation mark is a word."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [_words(encoding) for encoding in encodings]


def _words(encoding: Any) -> list[Word]:
    tokens = zip(encoding.word_ids, encoding.offsets, strict=True)
    spans = ([span for _, span in word] for _, word in groupby(tokens, key=lambda token: token[0]))
    return [(min(start for start, _ in word), max(end for _, end in word), len(word)) for word in spans]


def make_reading(
    encoding: Any, batch: SparseBatch, shares: Iterable[Entry], gate: Iterable[Entry] = (), prompt: str = ""
) -> Reading:
    """The explanation of the only row of ``batch``; ``encoding`` is an ``Encoding`` of the package tokenizers.

    ``shares`` and ``gate`` may be in any order. Weights are in descending order. Tokens of ``prompt``, which comes
    before the text, have the span (0, 0), as special tokens have.
    """
    shift = {None: 0, 0: len(prompt), 1: 0}  # by sequence: special tokens, text, expansion
    columns = (encoding.tokens, encoding.offsets, encoding.sequence_ids, encoding.word_ids)
    tokens = tuple(
        Token(
            text,
            max(start - shift[sequence], 0),
            max(end - shift[sequence], 0),
            sequence,
            None if sequence is None else word,
        )
        for text, (start, end), sequence, word in zip(*columns, strict=True)
    )
    terms, shares_of, gate_of = batch.terms, _by_dimension(shares), _by_dimension(gate)
    weights = sorted(
        zip(batch.indices.tolist(), batch.values.tolist(), strict=True), key=lambda pair: (-pair[1], terms[pair[0]])
    )
    return Reading(
        tokens=tokens,
        truncated=bool(encoding.overflowing),
        spelled=any(
            id < len(terms) and terms[id] == token.text for id, token in zip(encoding.ids, tokens, strict=True)
        ),
        weights={terms[number]: weight for number, weight in weights},
        sources={
            terms[number]: Sources(
                shares=shares_of.get(number, ()),
                gate=gate_of.get(number, ()),
                probability=_probability(gate_of.get(number)),
            )
            for number, _ in weights
        },
    )


def _probability(gate: Sequence[Share] | None) -> float | None:
    """The sigmoid of the sum of the logits."""
    return None if not gate else (1 + math.tanh(sum(share.weight for share in gate) / 2)) / 2


def _by_dimension(entries: Iterable[Entry]) -> dict[int, tuple[Share, ...]]:
    shares: dict[int, list[Share]] = {}
    for number, share in entries:
        shares.setdefault(number, []).append(share)
    return {number: tuple(sorted(unsorted)) for number, unsorted in shares.items()}
