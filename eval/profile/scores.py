"""How much of the scores of a run comes from words of the texts, and how much from expansion terms.

A matched term is literal in a text if it is one of the word pieces of the whole, untruncated text. A document's
expansion (docT5query) is not part of its text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from encoders.checkpoints import read_tokenizer
from eval.costs import TermCounts
from eval.measures import Judged, load_pieces, tokenizer_folder
from eval.profile.frequencies import is_index, only_index
from learned_sparse.collections.trec import Run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.jsonvector.reader import read_vectors

KINDS = {
    (True, True): "literal in both texts",
    (True, False): "literal in the query, expanded in the document",
    (False, True): "literal in the document, expanded in the query",
    (False, False): "expanded in both",
}
"""Kind of a matched term by whether it is a piece of the query, and of the document."""
Vectors = Mapping[str, Mapping[str, int]]
Pieces = Mapping[str, Set[str]]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Contribution of the matched terms of one kind to a score: a mean over hits."""

    kind: str
    score: float
    """Share of the score."""
    terms: float
    """Number of matched terms."""


@dataclass(frozen=True, kw_only=True)
class ScoreParts:
    """Parts of the scores of the best hits of each query."""

    queries: int
    hits: int
    """Hits of all queries together."""
    parts: tuple[Part, ...]
    """In the order of ``KINDS``; the shares add up to 1."""


def matched(
    query: Mapping[str, int], document: Mapping[str, int], in_query: Set[str], in_document: Set[str]
) -> Iterator[tuple[str, int]]:
    """Kind and contribution to the score of each term that both vectors have.

    >>> list(matched({"hives": 2, "rash": 3}, {"hives": 5, "rash": 1, "itch": 9}, {"hives"}, {"hives", "itch"}))
    [('literal in both texts', 10), ('expanded in both', 3)]
    """
    for term, impact in query.items():
        if term in document:
            yield KINDS[term in in_query, term in in_document], impact * document[term]


def score_parts(
    hits: Sequence[tuple[str, str, float]],
    queries: Vectors,
    documents: Vectors,
    in_query: Pieces,
    in_document: Pieces,
) -> ScoreParts:
    """Divide the scores of ``(query id, document id, score)``; a score must be the dot product of its vectors."""
    if not hits:
        raise LearnedSparseError("the run has no hits of these queries")
    shares, terms = dict.fromkeys(KINDS.values(), 0.0), dict.fromkeys(KINDS.values(), 0)
    for query, document, score in hits:
        contributions = list(matched(queries[query], documents[document], in_query[query], in_document[document]))
        total = sum(contribution for _, contribution in contributions)
        # Runs have tied scores lowered by steps of 0.000001, and Lucene's scores are 32-bit floats.
        if not math.isclose(total, score, rel_tol=1e-6, abs_tol=0.01):
            raise LearnedSparseError(
                f"query {query!r}, document {document!r}: the score is {score:g} in the run and {total:,} by these "
                "vectors; give the index and the encoded queries of this run"
            )
        for kind, contribution in contributions:
            shares[kind] += contribution / total
            terms[kind] += 1
    parts = (Part(kind=k, score=shares[k] / len(hits), terms=terms[k] / len(hits)) for k in KINDS.values())
    return ScoreParts(queries=len({query for query, _, _ in hits}), hits=len(hits), parts=tuple(parts))


def parts_of_run(
    run: Run, queries: Vectors, judged: Judged, paths: Sequence[Path], counts: TermCounts, tokenizer: str, depth: int
) -> ScoreParts:
    """Divide the scores of the ``depth`` best hits of each judged query; one pass over the collection."""
    vocabulary = read_tokenizer(tokenizer_folder(tokenizer)).get_vocab()
    if vocabulary.keys().isdisjoint(counts.document_frequency):
        raise LearnedSparseError(
            f"{paths[0]}: no dimension is a word piece of {tokenizer}, so none can be literal; give the model's "
            "--tokenizer, or omit --run for latent dimensions"
        )
    if unknown := sorted(run.keys() & judged.queries.keys() - queries.keys()):
        raise LearnedSparseError(f"query {unknown[0]!r} of the run is not among the encoded queries; encode its split")
    hits = [(query, *hit) for query, of_query in run.items() if query in judged.queries for hit in of_query[:depth]]
    ids = {document for _, document, _ in hits}
    texts = {name: document.text for name, document in judged.documents(ids).items()} if ids else {}
    spelling = {number: term for term, number in vocabulary.items()}
    pieces = load_pieces(tokenizer)

    def pieces_of(texts: Mapping[str, str]) -> dict[str, frozenset[str]]:
        numbers = pieces(list(texts.values()))
        return {name: frozenset(map(spelling.__getitem__, of)) for name, of in zip(texts, numbers, strict=True)}

    in_query = pieces_of({query: judged.queries[query] for query, _, _ in hits})
    return score_parts(hits, queries, _vectors_of(paths, ids), in_query, pieces_of(texts))


def _vectors_of(paths: Sequence[Path], ids: Iterable[str]) -> Vectors:
    """Vectors of the documents ``ids``; an error if one of them is missing."""
    wanted = set(ids)
    if is_index(paths[0]):
        from learned_sparse.lucene.reader import postings_of

        vectors = postings_of(only_index(paths), wanted)
    else:
        vectors = {name: vector for path in paths for name, vector in read_vectors(path) if name in wanted}
    if missing := sorted(wanted - vectors.keys()):
        raise LearnedSparseError(
            f"{paths[0]}: {len(missing)} of {len(wanted)} documents of the run are missing (for instance "
            f"{missing[0]!r}); give the run of this index; a run of an index of segments needs --rank-segments"
        )
    return vectors
