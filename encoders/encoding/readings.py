"""The largest weights of sparse rows, and where they come from; without torch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from learned_sparse.core.records import Reading, Share, Sources, SparseBatch, Token

Entry = tuple[int, Share]
"""A dimension, and the contribution of one token to its weight."""


def keep_top_k(batch: SparseBatch, k: int) -> SparseBatch:
    """The ``k`` largest values of each row; of equal values, those of the smaller term ids."""
    lengths = np.diff(batch.indptr)
    rows = np.repeat(np.arange(len(batch)), lengths)
    order = np.lexsort((batch.indices, -batch.values, rows))  # by row, then value, then term id
    rank = np.arange(len(order)) - np.repeat(batch.indptr[:-1], lengths)
    kept = np.sort(order[rank < k])
    indptr = np.concatenate([[0], np.cumsum(np.minimum(lengths, k))]).astype(np.int64)
    return SparseBatch(indptr, batch.indices[kept], batch.values[kept], batch.terms)


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
                # the sigmoid of the sum of the logits
                probability=(1 + math.tanh(sum(share.weight for share in gate_of[number]) / 2)) / 2
                if number in gate_of
                else None,
            )
            for number, _ in weights
        },
    )


def _by_dimension(entries: Iterable[Entry]) -> dict[int, tuple[Share, ...]]:
    shares: dict[int, list[Share]] = {}
    for number, share in entries:
        shares.setdefault(number, []).append(share)
    return {number: tuple(sorted(unsorted)) for number, unsorted in shares.items()}
