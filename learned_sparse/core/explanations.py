"""What an encoder can say of one text: its tokens, its weights, and which token gave how much of each weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Token(NamedTuple):
    """A token as the encoder reads it."""

    text: str
    """As the vocabulary spells it: ``hives``, ``##ing``, ``[CLS]``."""
    start: int
    end: int
    """Characters from ``start`` to before ``end``, in the text or in what expands it."""
    sequence: int | None
    """0: the text; 1: what expands it; None: the tokenizer adds this token."""
    word: int | None
    """The number of the word it is part of, in its sequence."""


class Share(NamedTuple):
    """What one token gives to one weight."""

    token: int
    """Its place among the tokens."""
    weight: float
    part: str = ""
    """The part of the model it comes from, such as ``weighting``, ``expansion``, ``b4``; empty where there is one."""


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where one weight comes from."""

    shares: tuple[Share, ...]
    """They add up to the weight; by token. A maximum is wholly the first token's that has it."""
    gate: tuple[Share, ...] = ()
    """What opened the gate for a term that is not in the text (SparTerm, Fig. 4): logits, by token."""
    probability: float | None = None
    """Of that gate (Fig. 3); None where no token opened one."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One text as one side of a model reads it."""

    tokens: tuple[Token, ...]
    """After truncation, those included that the tokenizer adds."""
    truncated: bool
    spelled: bool
    """Whether dimensions are tokens, so that a term may be of the text itself."""
    weights: Mapping[str, float]
    """``{term: weight}``, heaviest first."""
    sources: Mapping[str, Sources]
    """Of every term in ``weights``."""

    @property
    def literal(self) -> frozenset[str]:
        """The terms that are tokens of the text itself, or of what expands it."""
        return (
            frozenset(token.text for token in self.tokens if token.sequence is not None)
            if self.spelled
            else frozenset()
        )
