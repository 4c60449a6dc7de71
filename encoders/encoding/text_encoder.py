"""What both kinds of encoders have in common: a tokenizer, the largest weights, and where they come from; no torch."""

from __future__ import annotations

import functools
import itertools
import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints.tokenizer import untruncated, word_spans
from learned_sparse.core.encoder import Encoder, Word
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Reading, Share, Sources, SparseBatch, Token
from learned_sparse.core.terms import unfit_reason

_CHUNK_SIZE = 128
"""Texts tokenized at once: the tokenizer takes about 200 bytes per token, truncated ones included."""

Prepared = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]
"""Token ids of all texts after truncation, one text after the other, special tokens included; tokens of each text,
``(texts,)``; number of truncated texts."""
Entry = tuple[int, Share]
"""A dimension, and the contribution of one token to its weight."""


class TextEncoder(Encoder):
    """A tokenizer, and what becomes of its tokens: the common part of ``BagOfWordsEncoder`` and ``CheckpointEncoder``.

    A subclass has ``encode_prepared``, ``_tokenize`` and ``_shares``.
    """

    def __init__(self, tokenizer: Any, terms: Sequence[str], max_length: int, top_k: int | None, prompt: str) -> None:
        """``tokenizer``: of transformers, or of the package tokenizers."""
        self.tokenizer, self.terms, self.max_length = tokenizer, terms, max_length
        self.description = {}
        self.unwritable = [number for number, term in enumerate(terms) if unfit_reason(term)]
        """Ids of terms that Lucene cannot store; their weights are left out and counted in ``dropped``."""
        self.truncated = self.dropped = 0
        self._top_k, self._prompt = top_k, prompt

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts`` in order, one row each."""
        return self.encode_prepared(self.prepare(texts))

    def prepare(self, texts: Sequence[str]) -> Prepared:
        """Tokenize. Uses no device and no counter, so it may run in another thread than ``encode_prepared``."""
        tokens, lengths, truncated = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for start in range(0, len(texts), _CHUNK_SIZE):
            sequences, encodings = self._tokenize(texts[start : start + _CHUNK_SIZE])
            lengths.append(np.fromiter(map(len, sequences), np.int64, len(sequences)))
            tokens.append(np.fromiter(itertools.chain.from_iterable(sequences), np.int64, int(lengths[-1].sum())))
            truncated += sum(bool(encoding.overflowing) for encoding in encodings)
        return np.concatenate(tokens), np.concatenate(lengths), truncated

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:
        """``(start, end, tokens)`` of each word of the untruncated ``texts``, where a long text may be cut."""
        return word_spans(self._untruncated, texts)

    def explain(self, text: str) -> Reading:
        """Tokens and weights of ``text``, and the contribution of each token to each weight.

        Tokens of the prompt, which comes before the text, have the span (0, 0), as special tokens have.
        """
        batch, (sequences, encodings) = self.encode([text]), self._tokenize([text])
        if not encodings:
            raise LearnedSparseError("this tokenizer does not report token positions: save it as a tokenizer.json")
        encoding, (ids,), terms = encodings[0], sequences, self.terms
        shares_of, gate_of = map(_by_dimension, self._shares(ids, batch.indices))
        shift = {None: 0, 0: len(self._prompt), 1: 0}  # by sequence: special tokens, text, expansion
        columns = (encoding.tokens, encoding.offsets, encoding.sequence_ids, encoding.word_ids)
        tokens = tuple(
            Token(
                token,
                max(start - shift[sequence], 0),
                max(end - shift[sequence], 0),
                sequence,
                None if sequence is None else word,
            )
            for token, (start, end), sequence, word in zip(*columns, strict=True)
        )
        weights = dict(zip(batch.indices.tolist(), batch.values.tolist(), strict=True))
        ordered = sorted(weights, key=lambda number: (-weights[number], terms[number]))
        return Reading(
            tokens=tokens,
            truncated=bool(encoding.overflowing),
            spelled=any(id < len(terms) and terms[id] == token.text for id, token in zip(ids, tokens, strict=True)),
            weights={terms[number]: weights[number] for number in ordered},
            sources={
                terms[number]: Sources(
                    shares=shares_of.get(number, ()),
                    gate=gate_of.get(number, ()),
                    # the sigmoid of the sum of the logits
                    probability=(1 + math.tanh(sum(share.weight for share in gate_of[number]) / 2)) / 2
                    if number in gate_of
                    else None,
                )
                for number in ordered
            },
        )

    @functools.cached_property
    def _untruncated(self) -> Tokenizer | None:
        return untruncated(self.tokenizer)

    @abstractmethod
    def _tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], Sequence[Any]]:
        """Token ids of each text, truncated; its ``Encoding``, which a tokenizer written in Python does not have."""

    @abstractmethod
    def _shares(self, ids: list[int], columns: npt.NDArray[np.int32]) -> tuple[list[Entry], list[Entry]]:
        """Shares of the tokens ``ids`` in the weights ``columns``, and in the logits of their gate."""


def keep_top_k(batch: SparseBatch, k: int) -> SparseBatch:
    """The ``k`` largest values of each row; of equal values, those of the smaller term ids."""
    lengths = np.diff(batch.indptr)
    rows = np.repeat(np.arange(len(batch)), lengths)
    order = np.lexsort((batch.indices, -batch.values, rows))  # by row, then value, then term id
    rank = np.arange(len(order)) - np.repeat(batch.indptr[:-1], lengths)
    kept = np.sort(order[rank < k])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, k))]).astype(np.int64)
    return SparseBatch(indptr, batch.indices[kept], batch.values[kept], batch.terms)


def _by_dimension(entries: Iterable[Entry]) -> dict[int, tuple[Share, ...]]:
    shares: dict[int, list[Share]] = {}
    for number, share in entries:
        shares.setdefault(number, []).append(share)
    return {number: tuple(sorted(unsorted)) for number, unsorted in shares.items()}
