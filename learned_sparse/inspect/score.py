"""A score as the sum of its terms: query impact times document impact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from learned_sparse.core import LearnedSparseError
from learned_sparse.inspect.view import Term, TextView, heaviest_words
from learned_sparse.jsonvector import EXACT_FLOATS


@dataclass(frozen=True, kw_only=True)
class ScoreTerm:
    """A term of both."""

    term: str
    query: int
    document: int
    literal_in_query: bool | None
    literal_in_document: bool | None
    """Whether the text itself has it; None where that is not known."""
    word_in_query: str | None
    word_in_document: str | None
    """The word that gives most of it; None where that is not known."""

    @property
    def product(self) -> int:
        """What it adds to the score."""
        return self.query * self.document


@dataclass(frozen=True, kw_only=True)
class Score:
    """Of a query and a document."""

    terms: tuple[ScoreTerm, ...]
    """The largest product first."""
    only_in_query: Mapping[str, int]
    only_in_document: Mapping[str, int]
    """``{term: impact}``, the heaviest first; they add nothing."""
    lucene: float
    """The score that Lucene gives."""

    @property
    def total(self) -> int:
        """The sum of the products."""
        return sum(term.product for term in self.terms)

    @property
    def names(self) -> frozenset[str]:
        """The terms that count."""
        return frozenset(term.term for term in self.terms)

    def check(self, where: str) -> None:
        """Raise if Lucene's score is another than the sum; above 2**24 its 32-bit floats may round."""
        if self.total <= EXACT_FLOATS and self.total != self.lucene:
            raise LearnedSparseError(
                f"{where}: the terms add up to {self.total}, Lucene scores {self.lucene}: the index does not hold what "
                "its postings say; index anew with learned_sparse.index --overwrite"
            )


def explain_score(query: TextView, document: TextView, lucene: float) -> Score:
    """Of two views with impacts."""
    asked = {term.term: term for term in query.terms if term.impact}
    held = {term.term: term for term in document.terms if term.impact}
    terms = [
        ScoreTerm(
            term=name,
            query=asked[name].impact or 0,
            document=held[name].impact or 0,
            literal_in_query=asked[name].literal,
            literal_in_document=held[name].literal,
            word_in_query=_word(query, asked[name]),
            word_in_document=_word(document, held[name]),
        )
        for name in asked.keys() & held.keys()
    ]
    return Score(
        terms=tuple(sorted(terms, key=lambda term: (-term.product, term.term))),
        only_in_query={name: term.impact or 0 for name, term in asked.items() if name not in held},
        only_in_document={name: term.impact or 0 for name, term in held.items() if name not in asked},
        lucene=lucene,
    )


def _word(view: TextView, term: Term) -> str | None:
    words = heaviest_words(view, term.sources.shares) if term.sources else []
    return words[0][0] if words else None
