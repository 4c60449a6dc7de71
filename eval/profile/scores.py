"""How much of the scores of a run comes from words that both texts have, and how much from expansions.

A matched term is literal in a text if it is one of its word pieces. The whole text counts, however much of it the model
read; what expands a document (docT5query) does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from encoders.encoding import read_tokenizer
from eval.measures import Judged, load_pieces, tokenizer_folder
from eval.profile.counts import Counts, vectors_of
from learned_sparse.collections import Run
from learned_sparse.core import LearnedSparseError

KINDS = {
    (True, True): "literal in both texts",
    (True, False): "literal in the query, expanded in the document",
    (False, True): "literal in the document, expanded in the query",
    (False, False): "expanded in both",
}
"""By whether a term is a piece of the query, and of the document."""
Vectors = Mapping[str, Mapping[str, int]]
Pieces = Mapping[str, Set[str]]


@dataclass(frozen=True, kw_only=True)
class Part:
    """What matched terms of one kind give to a score, on average over the hits; each hit counts the same."""

    kind: str
    score: float
    """Share of the score."""
    terms: float
    """Matched terms."""


@dataclass(frozen=True, kw_only=True)
class ScoreParts:
    """Of the best hits of each query."""

    queries: int
    hits: int
    """Of all these queries, that were looked at."""
    parts: tuple[Part, ...]
    """In the order of ``KINDS``; the shares add up to 1."""


def matched(
    query: Mapping[str, int], document: Mapping[str, int], in_query: Set[str], in_document: Set[str]
) -> Iterator[tuple[str, int]]:
    """The kind of each term that both vectors have, and what it gives to the score.

    >>> list(matched({"hives": 2, "rash": 3}, {"hives": 5, "rash": 1, "itch": 9}, {"hives"}, {"hives", "itch"}))
    [('literal in both texts', 10), ('expanded in both', 3)]
    """
    for term, impact in query.items():
        if term in document:
            yield KINDS[term in in_query, term in in_document], impact * document[term]


def score_parts(
    pairs: Iterable[tuple[str, str, float]], queries: Vectors, documents: Vectors, in_query: Pieces, in_document: Pieces
) -> ScoreParts:
    """Of ``(query id, document id, score)``; a score that is not the dot product of the vectors is an error."""
    asked, hits = set(), 0
    shares, terms = dict.fromkeys(KINDS.values(), 0.0), dict.fromkeys(KINDS.values(), 0)
    for query, document, score in pairs:
        found = list(matched(queries[query], documents[document], in_query[query], in_document[document]))
        total = sum(part for _, part in found)
        # Runs are written with tied scores lowered by steps of 0.000001, and Lucene's scores are 32-bit floats.
        if not math.isclose(total, score, rel_tol=1e-6, abs_tol=0.01):
            raise LearnedSparseError(
                f"query {query!r}, document {document!r}: the score is {score:g} in the run and {total:,} by these "
                "vectors; give the index that was searched and the queries that were asked"
            )
        for kind, part in found:
            shares[kind] += part / total
            terms[kind] += 1
        asked.add(query)
        hits += 1
    if not hits:
        raise LearnedSparseError("the run has no hits of these queries")
    parts = (Part(kind=kind, score=shares[kind] / hits, terms=terms[kind] / hits) for kind in KINDS.values())
    return ScoreParts(queries=len(asked), hits=hits, parts=tuple(parts))


def parts_of_run(
    run: Run, queries: Vectors, judged: Judged, places: Sequence[Path], counts: Counts, tokenizer: str, hits: int
) -> ScoreParts:
    """Of the ``hits`` best documents of each query of ``judged`` in ``run``; the collection is read once."""
    vocabulary = read_tokenizer(tokenizer_folder(tokenizer)).get_vocab()
    if vocabulary.keys().isdisjoint(counts.document_frequency):
        raise LearnedSparseError(
            f"{places[0]}: no dimension is a word piece of {tokenizer}, so none can be literal; "
            "name the model's tokenizer with --tokenizer, and leave --run away for latent dimensions"
        )
    if unknown := sorted(run.keys() & judged.queries.keys() - queries.keys()):
        raise LearnedSparseError(f"query {unknown[0]!r} of the run is not among the encoded queries; encode its split")
    pairs = [
        (query, document, score)
        for query, found in run.items()
        if query in judged.queries
        for document, score in found[:hits]
    ]
    ids = {document for _, document, _ in pairs}
    texts = {name: document.text for name, document in judged.documents(ids).items()} if ids else {}
    names = {number: term for term, number in vocabulary.items()}
    pieces = load_pieces(tokenizer)

    def spelled(of: Mapping[str, str]) -> dict[str, frozenset[str]]:
        found = pieces(list(of.values()))
        return {name: frozenset(map(names.__getitem__, some)) for name, some in zip(of, found, strict=True)}

    in_query = spelled({query: judged.queries[query] for query, _, _ in pairs})
    return score_parts(pairs, queries, vectors_of(places, ids), in_query, spelled(texts))
