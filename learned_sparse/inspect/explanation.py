"""Weights of a text by word and by term, and the score of a query and a document as a sum over terms.

The fields of the records are JSON values: ``inspect --json`` prints them, and ``learned_sparse.serve`` sends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from learned_sparse.core.reading import Reading, Share, Sources
from learned_sparse.core.records import EXPANDED
from learned_sparse.encode.hybrid import PARTS

_NOT_READ = Reading(tokens=(), truncated=False, spelled=False, weights={}, sources={})
_NO_SOURCES = Sources(shares=())


@dataclass(frozen=True, kw_only=True)
class Source:
    """Contribution of a word to the weight of a term; occurrences of the word are added up."""

    word: str
    """A special token, such as [CLS], is a word of its own."""
    part: str
    """Part of the model, such as ``b4``; empty if there is only one."""
    weight: float


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
    words: tuple[Source, ...]
    """Words that the weight comes from, heaviest first; empty if the text was not read."""
    gate: tuple[Source, ...]
    """Logits of the words that opened the gate of the term (SparTerm)."""
    probability: float | None
    """Probability of that gate."""

    @property
    def value(self) -> float:
        """The impact if there is one, else the weight."""
        return (self.weight or 0.0) if self.impact is None else self.impact


@dataclass(frozen=True, kw_only=True)
class Word:
    """A word of a text: characters from ``start`` to before ``end``."""

    text: str
    start: int
    end: int
    sequence: int
    """0: in the text; 1: in the text that expands it."""
    tokens: tuple[str, ...]
    weight: float
    """Value of its heaviest token; where dimensions are not tokens, the sum of what its tokens contribute."""
    score: float
    """Its part of the score of the document, 0 without a query. Contributions of special tokens are assigned to no
    word, so the parts may add up to less than the score."""


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
    notes: tuple[str, ...]
    words: tuple[Word, ...]
    terms: tuple[Term, ...]
    """Heaviest first."""

    def pieces(self, sequence: int) -> list[tuple[str, Word | None]]:
        """The text (0) or its expansion (1) cut into words and the characters between them."""
        text, end = (self.text or "", self.expanded)[sequence], 0
        pieces: list[tuple[str, Word | None]] = []
        for word in sorted((word for word in self.words if word.sequence == sequence), key=attrgetter("start")):
            if word.start >= end:
                pieces += [(text[end : word.start], None), (word.text, word)]
                end = word.end
        return [(piece, word) for piece, word in [*pieces, (text[end:], None)] if piece]


@dataclass(frozen=True, kw_only=True)
class ScoreTerm:
    """A term that query and document share."""

    term: str
    query: int
    document: int
    """Impacts; under BM25, how often the term occurs."""
    product: float
    """Contribution to the score: the product of the impacts, or the BM25 of the term."""
    literal: bool | None
    """Whether it is a token of the document's text; see ``Term``."""
    word_in_query: str | None
    word_in_document: str | None
    """Word that contributes most to the impact; None if unknown."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """Score of a document for a query."""

    total: float
    """Sum of the products; an integer unless the index is scored by BM25."""
    lucene: float
    """The score that Lucene computes."""
    signals: Mapping[str, float]
    """Share of each part of a hybrid, by name; empty for other indexes."""
    terms: tuple[ScoreTerm, ...]
    """Largest product first."""
    only_in_query: Mapping[str, int]
    only_in_document: Mapping[str, int]
    """``{term: impact}`` of terms that are not shared, heaviest first."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A query, a document and its score for the query; what was not requested is None."""

    model: str
    index: str | None = None
    query: TextView | None = None
    document: TextView | None = None
    score: Score | None = None


def make_view(
    kind: str,
    text: str | None,
    reading: Reading | None,
    impacts: Mapping[str, int] | None,
    *,
    id: str | None = None,
    indexed: bool = False,
    notes: Iterable[str] = (),
    products: Mapping[str, float] | None = None,
) -> TextView:
    """View of ``text``, which may contain ``EXPANDED``.

    Terms are those of ``impacts`` if ``indexed`` or without ``reading``, else those of ``reading``. ``products`` are
    the parts of the terms in a score.
    """
    texts = (text or "").partition(EXPANDED)[::2]
    read, impact_of, product_of = reading or _NOT_READ, impacts or {}, products or {}
    names: Iterable[str] = read.weights
    if indexed or reading is None:
        names = sorted(impact_of, key=lambda term: (-impact_of[term], term))
    grouped = _words(read)
    word_of = {at: texts[sequence][start:end] for sequence, start, end, tokens in grouped for at in tokens}
    terms, literal = list[Term](), read.literal
    contributed, scores = [0.0] * len(read.tokens), [0.0] * len(read.tokens)
    for name in names:
        sources = read.sources.get(name, _NO_SOURCES)
        total = sum(share.weight for share in sources.shares)
        for share in sources.shares:
            contributed[share.token] += share.weight
            scores[share.token] += product_of.get(name, 0) * share.weight / total if total > 0 else 0.0
        terms.append(
            Term(
                term=name,
                weight=read.weights.get(name),
                impact=None if impacts is None else impacts.get(name, 0),
                literal=name in literal if read.spelled else None,
                words=_by_word(read, sources.shares, word_of),
                gate=_by_word(read, sources.gate, word_of),
                probability=sources.probability,
            )
        )
    values = {term.term: term.value for term in terms}
    weights = [values.get(token.text, 0.0) for token in read.tokens] if read.spelled else contributed
    words = tuple(
        Word(
            text=texts[sequence][start:end],
            start=start,
            end=end,
            sequence=sequence,
            tokens=tuple(read.tokens[at].text for at in tokens),
            weight=float((max if read.spelled else sum)([weights[at] for at in tokens])),
            score=sum(scores[at] for at in tokens),
        )
        for sequence, start, end, tokens in grouped
    )
    cut = []
    if read.truncated:
        of_model = [token for token in read.tokens if PARTS.get(token.text[:2]) != "BM25"]
        cut = [f"truncated at {len(of_model):,} tokens"]
    shown = None if text is None else texts[0]
    return TextView(
        kind=kind, id=id, text=shown, expanded=texts[1], notes=(*notes, *cut), words=words, terms=tuple(terms)
    )


def explain_score(query: TextView, document: TextView, products: Mapping[str, float], lucene: float) -> Score:
    """Score of two views with impacts. ``products``: contribution of each shared term; ``lucene``: Lucene's score."""
    of_query = {term.term: term for term in query.terms if term.impact}
    of_document = {term.term: term for term in document.terms if term.impact}
    total = sum(products.values())
    hybrid = total and all(name[:2] in PARTS for name in products)
    signals = {
        part: sum(product for name, product in products.items() if name.startswith(prefix)) / total
        for prefix, part in (PARTS.items() if hybrid else ())
    }
    terms = [
        ScoreTerm(
            term=name,
            query=int(of_query[name].value),
            document=int(of_document[name].value),
            product=product,
            literal=of_document[name].literal,
            word_in_query=next((source.word for source in of_query[name].words), None),
            word_in_document=next((source.word for source in of_document[name].words), None),
        )
        for name, product in sorted(products.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    return Score(
        total=total,
        lucene=lucene,
        signals=signals,
        terms=tuple(terms),
        only_in_query={name: int(term.value) for name, term in of_query.items() if name not in products},
        only_in_document={name: int(term.value) for name, term in of_document.items() if name not in products},
    )


def _words(reading: Reading) -> list[tuple[int, int, int, list[int]]]:
    """``(sequence, start, end, positions of its tokens)`` of each word."""
    words: dict[tuple[int, int], list[int]] = {}
    for at, token in enumerate(reading.tokens):
        if token.sequence is not None and token.end > token.start:
            word = -at - 1 if token.word is None else token.word
            words.setdefault((token.sequence, word), []).append(at)
    starts, ends = [token.start for token in reading.tokens], [token.end for token in reading.tokens]
    return [
        (sequence, min(starts[at] for at in tokens), max(ends[at] for at in tokens), tokens)
        for (sequence, _), tokens in words.items()
    ]


def _by_word(reading: Reading, shares: Sequence[Share], word_of: Mapping[int, str]) -> tuple[Source, ...]:
    weights: dict[tuple[str, str], float] = {}
    for share in shares:
        word = word_of.get(share.token, reading.tokens[share.token].text)
        weights[word, share.part] = weights.get((word, share.part), 0.0) + share.weight
    ordered = sorted(weights.items(), key=lambda pair: (-pair[1], *pair[0]))
    return tuple(Source(word=word, part=part, weight=weight) for (word, part), weight in ordered)
