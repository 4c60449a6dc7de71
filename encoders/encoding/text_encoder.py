"""What both kinds of encoders have in common: a tokenizer, the largest weights, and where they come from; no torch."""

from __future__ import annotations

import functools
import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints.tokenizer import untruncated, word_spans
from learned_sparse.core.encoder import Encoder, Word
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.terms import unfit_reason

if TYPE_CHECKING:
    from learned_sparse.core.reading import Entry, Reading

_CHUNK_SIZE = 128
"""Texts tokenized at once: the tokenizer takes about 200 bytes per token, truncated ones included."""

Prepared = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]
"""Token ids of all texts after truncation, one text after the other, special tokens included; tokens of each text,
``(texts,)``; number of truncated texts."""


class TextEncoder(Encoder):
    """A tokenizer, and what becomes of its tokens: the common part of ``BagOfWordsEncoder`` and ``CheckpointEncoder``.

    A subclass has ``encode_prepared``, ``tokenize`` and ``shares``.
    """

    def __init__(self, tokenizer: Any, terms: Sequence[str], max_length: int, top_k: int | None, prompt: str) -> None:
        """``tokenizer``: of transformers, or of the package tokenizers."""
        self.tokenizer, self.terms, self.max_length = tokenizer, terms, max_length
        self.description = {}
        self.unwritable = [number for number, term in enumerate(terms) if unfit_reason(term)]
        """Ids of terms that Lucene cannot store; their weights are left out and counted in ``SparseBatch.dropped``."""
        self._top_k, self.prompt = top_k, prompt

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        """Weights of ``texts`` in order, one row each."""
        return self.encode_prepared(self.prepare(texts))

    def prepare(self, texts: Sequence[str]) -> Prepared:
        """Tokenize. Uses no device, so it may run in another thread than ``encode_prepared``."""
        tokens, lengths, truncated = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
        for start in range(0, len(texts), _CHUNK_SIZE):
            sequences, encodings = self.tokenize(texts[start : start + _CHUNK_SIZE])
            lengths.append(np.fromiter(map(len, sequences), np.int64, len(sequences)))
            tokens.append(np.fromiter(itertools.chain.from_iterable(sequences), np.int64, int(lengths[-1].sum())))
            truncated += sum(bool(encoding.overflowing) for encoding in encodings)
        return np.concatenate(tokens), np.concatenate(lengths), truncated

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:
        """``(start, end, tokens)`` of each word of the untruncated ``texts``, where a long text may be cut."""
        return word_spans(self._untruncated, texts)

    def explain(self, text: str) -> Reading:
        """Tokens and weights of ``text``, and the contribution of each token to each weight."""
        from encoders.encoding.explain import explain

        return explain(self, text)

    @functools.cached_property
    def _untruncated(self) -> Tokenizer | None:
        return untruncated(self.tokenizer)

    @abstractmethod
    def tokenize(self, texts: Sequence[str]) -> tuple[list[list[int]], Sequence[Any]]:
        """Token ids of each text, truncated; its ``Encoding``, which a tokenizer written in Python does not have."""

    @abstractmethod
    def shares(self, ids: list[int], columns: npt.NDArray[np.int32]) -> tuple[list[Entry], list[Entry]]:
        """Shares of the tokens ``ids`` in the weights ``columns``, and in the logits of their gate."""


def keep_top_k(batch: SparseBatch, k: int) -> SparseBatch:
    """The ``k`` largest values of each row; of equal values, those of the smaller term ids."""
    lengths = np.diff(batch.indptr)
    rows = np.repeat(np.arange(len(batch)), lengths)
    order = np.lexsort((batch.indices, -batch.values, rows))  # by row, then value, then term id
    rank = np.arange(len(order)) - np.repeat(batch.indptr[:-1], lengths)
    kept = np.sort(order[rank < k])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, k))]).astype(np.int64)
    return replace(batch, indptr=indptr, indices=batch.indices[kept], values=batch.values[kept])
