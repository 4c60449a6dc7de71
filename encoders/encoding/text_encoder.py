"""What both kinds of encoders have in common: a tokenizer, the largest weights, and where they come from; no torch."""

from __future__ import annotations

import functools
import hashlib
import itertools
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from encoders.checkpoints.tokenizer import pair_of, untruncated, word_spans
from learned_sparse.core.encoder import Encoder, Word
from learned_sparse.core.lines import unfit_reason
from learned_sparse.core.records import SparseBatch

if TYPE_CHECKING:
    from learned_sparse.core.reading import Entry, Reading, Share

_CHUNK_SIZE = 128
"""Texts tokenized at once: the tokenizer takes about 200 bytes per token, truncated ones included."""

Prepared = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]
"""Token ids of all texts after truncation, one text after the other, special tokens included; tokens of each text,
``(texts,)``; number of truncated texts."""


class TextEncoder(Encoder):
    """A tokenizer, and what becomes of its tokens: the common part of ``BagOfWordsEncoder`` and ``CheckpointEncoder``.

    A subclass has ``encode_prepared`` and ``shares``.
    """

    def __init__(self, tokenizer: Any, terms: Sequence[str], max_length: int, top_k: int | None, prompt: str) -> None:
        """``tokenizer``: of transformers, or of the package tokenizers, which is changed in place."""
        self.tokenizer, self.terms, self.max_length = tokenizer, terms, max_length
        self._backend = untruncated(tokenizer)
        self.tokenizer_sha256 = hashlib.sha256(self._backend.to_str().encode()).hexdigest()
        self._backend.enable_truncation(max_length, direction=getattr(tokenizer, "truncation_side", "right"))
        self._backend.encode_special_tokens = getattr(tokenizer, "split_special_tokens", False)
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
            pairs = [pair_of(self.prompt + text) for text in texts[start : start + _CHUNK_SIZE]]
            encodings = self._backend.encode_batch(pairs)
            sequences = [encoding.ids for encoding in encodings]
            lengths.append(np.fromiter(map(len, sequences), np.int64, len(sequences)))
            tokens.append(np.fromiter(itertools.chain.from_iterable(sequences), np.int64, int(lengths[-1].sum())))
            truncated += sum(bool(encoding.overflowing) for encoding in encodings)
        return np.concatenate(tokens), np.concatenate(lengths), truncated

    def word_spans(self, texts: Sequence[str]) -> list[list[Word]]:
        """``(start, end, tokens)`` of each word of the untruncated ``texts``, where a long text may be cut."""
        return word_spans(self._untruncated, texts)

    @functools.cached_property
    def _untruncated(self) -> Tokenizer:
        return untruncated(Tokenizer.from_str(self._backend.to_str()))

    def explain(self, text: str) -> Reading:
        """Tokens and weights of ``text``, and the contribution of each token to each weight.

        Tokens of the prompt, which comes before the text, have the span (0, 0), as special tokens have.
        """
        from learned_sparse.core.reading import Reading, Sources, Token

        batch, (encoding,) = self.encode([text]), self._backend.encode_batch([pair_of(self.prompt + text)])
        ids, terms = encoding.ids, self.terms
        shares_of, gate_of = map(_by_dimension, self.shares(ids, batch.indices))
        shift = {None: 0, 0: len(self.prompt), 1: 0}  # by sequence: special tokens, text, expansion
        columns = (encoding.tokens, encoding.offsets, encoding.sequence_ids, encoding.word_ids)
        tokens = []
        for token, (start, end), sequence, word in zip(*columns, strict=True):
            span = max(start - shift[sequence], 0), max(end - shift[sequence], 0)
            tokens.append(Token(token, *span, sequence, None if sequence is None else word))
        weights = dict(zip(batch.indices.tolist(), batch.values.tolist(), strict=True))
        ordered = sorted(weights, key=lambda number: (-weights[number], terms[number]))
        return Reading(
            tokens=tuple(tokens),
            truncated=bool(encoding.overflowing),
            spelled=any(id < len(terms) and terms[id] == token.text for id, token in zip(ids, tokens, strict=True)),
            weights={terms[n]: weights[n] for n in ordered},
            sources={terms[n]: Sources(shares=shares_of.get(n, ()), gate=gate_of.get(n, ())) for n in ordered},
        )

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


def _by_dimension(entries: Iterable[Entry]) -> dict[int, tuple[Share, ...]]:
    shares: dict[int, list[Share]] = {}
    for number, share in entries:
        shares.setdefault(number, []).append(share)
    return {number: tuple(sorted(unsorted)) for number, unsorted in shares.items()}
