"""An inspection as JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from learned_sparse.core import Share
from learned_sparse.inspect.score import Score
from learned_sparse.inspect.setup import Inspection
from learned_sparse.inspect.view import Term, TextView


def to_json(inspection: Inspection) -> dict[str, Any]:
    """All terms of all texts; a part that was not asked for is null."""
    return {
        "model": inspection.model,
        "index": inspection.index,
        "query": _text(inspection.query),
        "document": _text(inspection.document),
        "score": _score(inspection.score),
    }


def _text(view: TextView | None) -> dict[str, Any] | None:
    if view is None:
        return None
    return {
        "id": view.id,
        "text": view.text,
        "expanded": view.expanded or None,
        "notes": list(view.notes),
        "tokens": [token._asdict() for token in view.tokens],
        "words": [
            {"text": view.texts[word.sequence][word.start : word.end], "start": word.start, "end": word.end,
             "sequence": word.sequence, "weight": word.weight}
            for word in view.words
        ],
        "terms": [_term(term) for term in view.terms],
    }  # fmt: skip


def _term(term: Term) -> dict[str, Any]:
    sources = term.sources
    return {
        "term": term.term,
        "weight": term.weight,
        "impact": term.impact,
        "literal": term.literal,
        "sources": None if sources is None else _shares(sources.shares),
        "gate": {"probability": sources.probability, "sources": _shares(sources.gate)}
        if sources and sources.gate
        else None,
    }


def _shares(shares: Iterable[Share]) -> list[dict[str, Any]]:
    """Each token by its place in ``tokens``."""
    return [{"token": share.token, "part": share.part or None, "weight": share.weight} for share in shares]


def _score(score: Score | None) -> dict[str, Any] | None:
    if score is None:
        return None
    return {
        "total": score.total,
        "lucene": score.lucene,
        "terms": [
            {"term": term.term, "query": term.query, "document": term.document, "product": term.product,
             "literal_in_query": term.literal_in_query, "literal_in_document": term.literal_in_document,
             "word_in_query": term.word_in_query, "word_in_document": term.word_in_document}
            for term in score.terms
        ],
        "only_in_query": dict(score.only_in_query),
        "only_in_document": dict(score.only_in_document),
    }  # fmt: skip
