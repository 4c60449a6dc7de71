"""How an encoder reads one text: tokens, weights, and the contribution of each token to each weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Token(NamedTuple):
    """One input token of an encoder."""

    text: str
    """Spelling in the vocabulary: ``hives``, ``##ing``, ``[CLS]``."""
    start: int
    end: int
    """Character offsets in the text or in its expansion; ``end`` is exclusive."""
    sequence: int | None
    """0 for the text, 1 for its expansion, None for a token that the tokenizer adds."""
    word: int | None
    """Number of the token's word in its sequence."""


class Share(NamedTuple):
    """Contribution of one token to one weight."""

    token: int
    """Index in ``Reading.tokens``."""
    weight: float
    part: str = ""
    """Part of the model that contributes, such as ``weighting`` or ``b4``; empty if there is only one."""


Entry = tuple[int, Share]
"""A dimension, and the contribution of one token to its weight."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Contributions to one weight."""

    shares: tuple[Share, ...]
    """Contributions in token order; they sum to the weight. A maximum is assigned to the first token that has it."""
    gate: tuple[Share, ...] = ()
    """Logits by token that opened the gate for a term outside the text (SparTerm, Figure 4)."""

    @property
    def probability(self) -> float | None:
        """Probability of that gate (SparTerm, Figure 3), the sigmoid of the sum; None if no token opened a gate."""
        return (1 + math.tanh(sum(share.weight for share in self.gate) / 2)) / 2 if self.gate else None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Tokens and weights of one text, as one side of a model reads it."""

    tokens: tuple[Token, ...]
    """Tokens after truncation, including those that the tokenizer adds."""
    truncated: bool
    spelled: bool
    """Whether dimensions are tokens, so that a term can occur in the text itself."""
    weights: Mapping[str, float]
    """``{term: weight}``, largest weight first."""
    sources: Mapping[str, Sources]
    """Contributions to every term of ``weights``."""

    @property
    def literal(self) -> frozenset[str]:
        """Terms that are tokens of the text or of its expansion; empty if dimensions are not tokens."""
        if not self.spelled:
            return frozenset()
        return frozenset(token.text for token in self.tokens if token.sequence is not None)
