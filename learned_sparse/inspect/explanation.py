"""Weights of a text by word and by term, and the score of a query and a document as a sum over terms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from learned_sparse.core import EXPANDED, LearnedSparseError, Reading, Share, Sources, Token
from learned_sparse.encode import PARTS
from learned_sparse.jsonvector import EXACT_FLOATS

ROUNDING = 1e-5
"""Relative difference between a sum of 32-bit floats and Lucene's."""


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word of a text: characters from ``start`` to before ``end``."""

    start: int
    end: int
    sequence: int
    """0: in the text; 1: in the text that expands it."""
    tokens: tuple[int, ...]
    """Positions of its tokens."""
    weight: float
    """Value of its heaviest token; where dimensions are not tokens, the sum of what its tokens contribute."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """A dimension with a positive weight."""

    term: str
    weight: float | None
    """From the encoder; None if the encoder did not read the text, or gives the term no weight."""
    impact: int | None
    """As indexed or searched; None without a quantiser."""
    literal: bool | None
    """Whether it is a token of the text itself; None if dimensions are not tokens, or the text was not read."""
    sources: Sources | None

    @property
    def value(self) -> float:
        """The impact if there is one, else the weight."""
        return (self.weight or 0.0) if self.impact is None else self.impact

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        sources = self.sources
        gate = {"probability": sources.probability, "sources": _shares(sources.gate)} if sources else None
        shares = _shares(sources.shares) if sources else None
        return {**vars(self), "sources": shares, "gate": gate if sources and sources.gate else None}


@dataclass(frozen=True, kw_only=True)
class TextView:
    """One text with its terms, or the terms that an index holds of it."""

    kind: str
    """``query`` or ``document``."""
    id: str | None
    text: str | None
    """None if the text is not available."""
    expanded: str
    """Text that expands it."""
    tokens: tuple[Token, ...]
    words: tuple[Word, ...]
    terms: tuple[Term, ...]
    """The heaviest first."""
    notes: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, str]:
        """The text and its expansion; positions of tokens and words count characters in these."""
        return self.text or "", self.expanded

    @cached_property
    def word_of(self) -> Mapping[int, str]:
        """``{token position: word}``; tokens that the tokenizer adds belong to no word."""
        return {at: self.texts[word.sequence][word.start : word.end] for word in self.words for at in word.tokens}

    def pieces(self, sequence: int) -> list[tuple[str, Word | None]]:
        """The text (0) or its expansion (1) cut into words and the characters between them."""
        text, end = self.texts[sequence], 0
        pieces: list[tuple[str, Word | None]] = []
        for word in sorted((word for word in self.words if word.sequence == sequence), key=lambda word: word.start):
            if word.start >= end:
                pieces += [(text[end : word.start], None), (text[word.start : word.end], word)]
                end = word.end
        return [(piece, word) for piece, word in [*pieces, (text[end:], None)] if piece]

    def heaviest_words(self, shares: Iterable[Share]) -> list[tuple[str, str, float]]:
        """``(word, part, weight)`` of ``shares``, heaviest first; occurrences of the same word are added up."""
        weights: dict[tuple[str, str], float] = {}
        for share in shares:
            word = self.word_of.get(share.token, self.tokens[share.token].text)
            weights[word, share.part] = weights.get((word, share.part), 0.0) + share.weight
        rows = ((word, part, weight) for (word, part), weight in weights.items())
        return sorted(rows, key=lambda row: (-row[2], *row[:2]))

    def to_json(self) -> dict[str, Any]:
        """JSON values; ``token`` in a source is a position in ``tokens``."""
        return {
            "id": self.id,
            "text": self.text,
            "expanded": self.expanded or None,
            "notes": list(self.notes),
            "tokens": [token._asdict() for token in self.tokens],
            "words": [
                {"text": self.texts[word.sequence][word.start : word.end], "start": word.start, "end": word.end,
                 "sequence": word.sequence, "weight": word.weight}
                for word in self.words
            ],
            "terms": [term.to_json() for term in self.terms],
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ScoreTerm:
    """A term that query and document share."""

    term: str
    query: int
    document: int
    """Impacts; under BM25, how often the term occurs."""
    word_in_query: str | None
    word_in_document: str | None
    """Word that contributes most to the impact; None if unknown."""
    bm25: float | None = None
    """Score of the document for this term alone; None where scores are dot products."""

    @property
    def product(self) -> float:
        """Its contribution to the score: the product of the impacts, or its BM25."""
        return self.query * self.document if self.bm25 is None else self.bm25

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {name: value for name, value in vars(self).items() if name != "bm25"} | {"product": self.product}


@dataclass(frozen=True, kw_only=True)
class Score:
    """Score of a document for a query."""

    terms: tuple[ScoreTerm, ...]
    """The largest product first."""
    only_in_query: Mapping[str, int]
    only_in_document: Mapping[str, int]
    """``{term: impact}`` of terms that are not shared, the heaviest first."""
    lucene: float
    """The score that Lucene computes."""

    @property
    def total(self) -> float:
        """Sum of the products; an integer unless the index is scored by BM25."""
        return sum(term.product for term in self.terms)

    @property
    def signals(self) -> dict[str, float]:
        """Share of each part of a hybrid, by name; empty for other indexes."""
        parts = [(PARTS.get(term.term[:2]), term.product) for term in self.terms]
        if not self.total or any(name is None for name, _ in parts):
            return {}
        return {name: sum(product for part, product in parts if part == name) / self.total for name in PARTS.values()}

    def check(self, where: str) -> None:
        """Raise if Lucene's score differs from the sum; BM25, and scores above 2**24, are rounded to 32-bit floats."""
        exact = self.total <= EXACT_FLOATS and all(term.bm25 is None for term in self.terms)
        if not math.isclose(self.total, self.lucene, rel_tol=0.0 if exact else ROUNDING):
            raise LearnedSparseError(
                f"{where}: the terms add up to {self.total}, Lucene scores {self.lucene}: postings and scores of the "
                "index disagree; index again with learned_sparse.index --overwrite"
            )

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"total": self.total, **vars(self), "terms": [term.to_json() for term in self.terms]}


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Everything that one call of the command shows; parts that were not requested are None."""

    model: str
    index: str | None = None
    query: TextView | None = None
    document: TextView | None = None
    score: Score | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        parts = {"query": self.query, "document": self.document, "score": self.score}
        return {**vars(self), **{name: part and part.to_json() for name, part in parts.items()}}


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
    """View of ``text``, which may contain ``EXPANDED``.

    Terms are those of ``impacts`` if ``indexed`` or without ``reading``, else those of ``reading``.
    """
    own_text, _, expanded = (text or "").partition(EXPANDED)
    weights, literal = (reading.weights, reading.literal) if reading else ({}, frozenset())
    if indexed or not reading:
        names = sorted(impacts or {}, key=lambda term: (-(impacts or {})[term], term))
    else:
        names = list(weights)
    terms = tuple(
        Term(
            term=name,
            weight=weights.get(name),
            impact=None if impacts is None else impacts.get(name, 0),
            literal=name in literal if reading and reading.spelled else None,
            sources=reading.sources.get(name) if reading else None,
        )
        for name in names
    )
    cut = []
    if reading and reading.truncated:
        of_model = [token for token in reading.tokens if PARTS.get(token.text[:2]) != "BM25"]
        cut = [f"truncated at {len(of_model):,} tokens"]
    return TextView(
        kind=kind,
        id=id,
        text=None if text is None else own_text,
        expanded=expanded,
        tokens=reading.tokens if reading else (),
        words=_words(reading, terms) if reading else (),
        terms=terms,
        notes=(*notes, *cut),
    )


def explain_score(query: TextView, document: TextView, lucene: float, bm25: Mapping[str, float] | None = None) -> Score:
    """Score of two views with impacts; ``lucene`` is the score that Lucene computes, ``bm25`` that of each term."""
    of_query = {term.term: term for term in query.terms if term.impact}
    of_document = {term.term: term for term in document.terms if term.impact}
    terms = [
        ScoreTerm(
            term=name,
            query=int(of_query[name].value),
            document=int(of_document[name].value),
            word_in_query=_main_word(query, of_query[name]),
            word_in_document=_main_word(document, of_document[name]),
            bm25=None if bm25 is None else bm25[name],
        )
        for name in of_query.keys() & of_document.keys()
    ]
    return Score(
        terms=tuple(sorted(terms, key=lambda term: (-term.product, term.term))),
        only_in_query={name: int(term.value) for name, term in of_query.items() if name not in of_document},
        only_in_document={name: int(term.value) for name, term in of_document.items() if name not in of_query},
        lucene=lucene,
    )


def word_contributions(document: TextView, score: Score) -> list[float]:
    """The part of the score that each of ``document.words`` gives; a term is divided among the words it comes from.

    What special tokens give belongs to no word, so that the parts may add up to less than the score.
    """
    parts = [0.0] * len(document.words)
    word_at = {at: number for number, word in enumerate(document.words) for at in word.tokens}
    sources = {term.term: term.sources for term in document.terms if term.sources}
    for term in score.terms:
        shares = sources[term.term].shares if term.term in sources else ()
        total = sum(share.weight for share in shares)
        for share in shares:
            if share.token in word_at and total > 0:
                parts[word_at[share.token]] += term.product * share.weight / total
    return parts


def _main_word(view: TextView, term: Term) -> str | None:
    words = view.heaviest_words(term.sources.shares) if term.sources else []
    return words[0][0] if words else None


def _words(reading: Reading, terms: Sequence[Term]) -> tuple[Word, ...]:
    weights = _token_weights(reading, terms)
    words: dict[tuple[int, int], list[int]] = {}
    for at, token in enumerate(reading.tokens):
        if token.sequence is not None and token.end > token.start:
            word = -at - 1 if token.word is None else token.word
            words.setdefault((token.sequence, word), []).append(at)
    join = max if reading.spelled else sum
    return tuple(
        Word(
            start=min(reading.tokens[at].start for at in tokens),
            end=max(reading.tokens[at].end for at in tokens),
            sequence=sequence,
            tokens=tuple(tokens),
            weight=float(join([weights[at] for at in tokens])),
        )
        for (sequence, _), tokens in words.items()
    )


def _token_weights(reading: Reading, terms: Sequence[Term]) -> list[float]:
    """Weight of each token: that of the term it spells, or the sum of what it contributes to all terms."""
    if reading.spelled:
        values = {term.term: term.value for term in terms}
        return [values.get(token.text, 0.0) for token in reading.tokens]
    weights = [0.0] * len(reading.tokens)
    for term in terms:
        for share in term.sources.shares if term.sources else ():
            weights[share.token] += share.weight
    return weights


def _shares(shares: Iterable[Share]) -> list[dict[str, Any]]:
    return [{"token": share.token, "part": share.part or None, "weight": share.weight} for share in shares]
