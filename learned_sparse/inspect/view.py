"""One text with its weights, made ready to be shown: words to shade, and terms with where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from learned_sparse.core import EXPANDED, Reading, Share, Sources, Token

SHADES = 5
"""From 1, hardly anything, to the heaviest; 0 is no shade."""


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word of a text: characters from ``start`` to before ``end``."""

    start: int
    end: int
    sequence: int
    """0: of the text; 1: of what expands it."""
    tokens: tuple[int, ...]
    """The places of its tokens."""
    weight: float
    """Of its heaviest word piece; where dimensions are no tokens, the sum of all that its tokens give."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """A dimension with weight."""

    term: str
    weight: float | None
    """By the encoder; None if that was not asked, or gives none."""
    impact: int | None
    """As indexed or searched; None if nobody says how to quantise."""
    literal: bool | None
    """Whether it is a token of the text itself; None if no token can be one, or nobody knows."""
    sources: Sources | None

    @property
    def value(self) -> float:
        """The impact, else the weight."""
        return self.weight or 0.0 if self.impact is None else self.impact


@dataclass(frozen=True, kw_only=True)
class TextView:
    """One text, or what an index holds of it."""

    kind: str
    """``query`` or ``document``."""
    id: str | None
    text: str | None
    """None if it was not found."""
    expanded: str
    """What expands it."""
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    terms: tuple[Term, ...]
    """The heaviest first."""
    notes: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, str]:
        """The text and what expands it: what the characters of tokens are counted in."""
        return self.text or "", self.expanded

    @cached_property
    def word_of(self) -> Mapping[int, str]:
        """The word that each token is of; not those that the tokenizer adds."""
        return {place: self.texts[word.sequence][word.start : word.end] for word in self.words for place in word.tokens}


def make_view(
    kind: str,
    text: str | None,
    reading: Reading | None,
    impacts: Mapping[str, int] | None,
    *,
    id: str | None = None,
    indexed: bool = False,
    notes: Iterable[str] = (),
) -> TextView:
    """``text`` may hold ``EXPANDED``; with ``indexed``, the terms are those of ``impacts``, else of the reading."""
    own, _, expanded = (text or "").partition(EXPANDED)
    weights = reading.weights if reading else {}
    literal = reading.literal if reading and reading.spelled else None
    if indexed or not reading:
        names = sorted(impacts or {}, key=lambda term: (-(impacts or {})[term], term))
    else:
        names = list(weights)
    terms = tuple(
        Term(
            term=name,
            weight=weights.get(name),
            impact=None if impacts is None else impacts.get(name, 0),
            literal=None if literal is None else name in literal,
            sources=reading.sources.get(name) if reading else None,
        )
        for name in names
    )
    cut = [f"cut at {len(reading.tokens):,} tokens: the rest was not read"] if reading and reading.truncated else []
    return TextView(
        kind=kind,
        id=id,
        text=None if text is None else own,
        expanded=expanded,
        tokens=reading.tokens if reading else (),
        words=_words(reading, terms) if reading else (),
        terms=terms,
        notes=(*notes, *cut),
    )


def _words(reading: Reading, terms: Sequence[Term]) -> tuple[Word, ...]:
    weights = _token_weights(reading, terms)
    found: dict[tuple[int, int], list[int]] = {}
    for place, token in enumerate(reading.tokens):
        if token.sequence is not None and token.end > token.start:
            word = -place - 1 if token.word is None else token.word
            found.setdefault((token.sequence, word), []).append(place)
    join = max if reading.spelled else sum
    return tuple(
        Word(
            start=min(reading.tokens[place].start for place in places),
            end=max(reading.tokens[place].end for place in places),
            sequence=sequence,
            tokens=tuple(places),
            weight=float(join([weights[place] for place in places])),
        )
        for (sequence, _), places in found.items()
    )


def _token_weights(reading: Reading, terms: Sequence[Term]) -> list[float]:
    if reading.spelled:
        values = {term.term: term.value for term in terms}
        return [values.get(token.text, 0.0) for token in reading.tokens]
    given = [0.0] * len(reading.tokens)
    for term in terms:
        for share in term.sources.shares if term.sources else ():
            given[share.token] += share.weight
    return given


def shade(weight: float, heaviest: float) -> int:
    """0 for no weight, else 1 to ``SHADES``.

    >>> [shade(weight, 10.0) for weight in (0.0, 0.1, 2.0, 2.1, 10.0)]
    [0, 1, 1, 2, 5]
    """
    return min(SHADES, -int(-SHADES * weight // heaviest)) if weight > 0 else 0


def pieces(view: TextView, sequence: int) -> list[tuple[str, Word | None]]:
    """The text (0) or what expands it (1) cut into words and what is between them."""
    text, found, end = view.texts[sequence], [], 0
    for word in sorted((word for word in view.words if word.sequence == sequence), key=lambda word: word.start):
        if word.start < end:
            continue
        found += [(text[end : word.start], None), (text[word.start : word.end], word)]
        end = word.end
    return [(piece, word) for piece, word in [*found, (text[end:], None)] if piece]


def spells(view: TextView, word: Word, terms: frozenset[str]) -> bool:
    """Whether one of the tokens of ``word`` is one of ``terms``."""
    return any(view.tokens[place].text in terms for place in word.tokens)


def heaviest_words(view: TextView, shares: Iterable[Share]) -> list[tuple[str, str, float]]:
    """``(word, part, weight)`` of shares joined by word, heaviest first; the same word at two places is one."""
    joined: dict[tuple[str, str], float] = {}
    for share in shares:
        name = view.word_of.get(share.token, view.tokens[share.token].text)
        joined[name, share.part] = joined.get((name, share.part), 0.0) + share.weight
    return sorted(
        ((name, part, weight) for (name, part), weight in joined.items()), key=lambda row: (-row[2], *row[:2])
    )
