"""A tokenised text with its weights as a record, whoever computed them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from learned_sparse.core import Reading, Share, Sources, SparseBatch, Token

Entry = tuple[int, Share]
"""A dimension, and what one token gives to it."""


def tokens_of(encoding: Any) -> tuple[Token, ...]:
    """The tokens of an ``Encoding`` of the package tokenizers."""
    columns = (encoding.tokens, encoding.offsets, encoding.sequence_ids, encoding.word_ids)
    return tuple(
        Token(text, start, end, sequence, None if sequence is None else word)
        for text, (start, end), sequence, word in zip(*columns, strict=True)
    )


def make_reading(
    encoding: Any,
    batch: SparseBatch,
    shares: Iterable[Entry],
    gate: Iterable[Entry] = (),
) -> Reading:
    """Of the only row of ``batch``; ``shares`` and ``gate`` may be in any order."""
    given, opening = _by_dimension(shares), _by_dimension(gate)
    weights = sorted(
        zip(batch.indices.tolist(), batch.values.tolist(), strict=True),
        key=lambda pair: (-pair[1], batch.terms[pair[0]]),
    )
    tokens = tokens_of(encoding)
    return Reading(
        tokens=tokens,
        truncated=bool(encoding.overflowing),
        spelled=any(_spells(batch.terms, id, token.text) for id, token in zip(encoding.ids, tokens, strict=True)),
        weights={batch.terms[number]: weight for number, weight in weights},
        sources={
            batch.terms[number]: Sources(
                shares=given.get(number, ()),
                gate=opening.get(number, ()),
                probability=_probability(opening.get(number)),
            )
            for number, _ in weights
        },
    )


def _spells(terms: Sequence[str], id: int, text: str) -> bool:
    return id < len(terms) and terms[id] == text


def _probability(gate: Sequence[Share] | None) -> float | None:
    """The sigmoid of the sum of the logits."""
    return None if not gate else (1 + math.tanh(sum(share.weight for share in gate) / 2)) / 2


def _by_dimension(entries: Iterable[Entry]) -> dict[int, tuple[Share, ...]]:
    found: dict[int, list[Share]] = {}
    for number, share in entries:
        found.setdefault(number, []).append(share)
    return {number: tuple(sorted(some)) for number, some in found.items()}
