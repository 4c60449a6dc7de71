"""Validation by retrieval: MRR@10 of held-out queries over a fixed pool of documents, and the best mixture."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from encoders.models import Mixture
from encoders.training.data import TextStore, draw
from encoders.training.recipe import Validation
from learned_sparse.collections import OnBadLine, load_collection, named_split, ranked, read_run
from learned_sparse.core import LearnedSparseError, Side

_logger = logging.getLogger(__name__)

Vectors = Any  # scipy.sparse.csr_array (texts, dimensions); scipy has no types
Encode = Callable[[Side, Sequence[str], str | None], Vectors]
"""``(side, texts, component)`` to weights; component None: the whole model."""
Floats = npt.NDArray[np.float64]
Score = tuple[float, int]
"""MRR@10, and the index of the mixture that reaches it; -1 if nothing is mixed."""

_MAX_CELLS = 4_000_000  # numbers held at once in the search for a mixture


class Validator:
    """The queries, judgements and pool of a ``Validation``, read once."""

    def __init__(
        self,
        settings: Validation,
        seed: int,
        mixtures: Sequence[Mixture] = (),
        *,
        expanded: bool = False,
        on_bad_line: OnBadLine = "error",
    ) -> None:
        """``mixtures`` to choose from. ``expanded``: documents are read with their expansion text."""
        collection, split = load_collection(settings.collection, on_bad_line=on_bad_line), settings.split
        if split == Validation.split:
            split = named_split(settings.collection, collection, split)
        qrels = collection.qrels(split)
        texts = {query.id: query.text for query in collection.queries(split)}
        documents = TextStore.of_collection(collection, expanded=expanded)
        unknown = sum(
            grade > 0 and id not in documents for query in texts for id, grade in qrels.get(query, {}).items()
        )
        if unknown:
            _logger.warning("validation: left out %d judgements whose document is not in the collection", unknown)
        positives = {
            query: [id for id, relevance in sorted(qrels[query].items()) if relevance > 0 and id in documents]
            for query in sorted(texts.keys() & qrels.keys())
        }
        judged = [query for query, ids in positives.items() if ids]
        if not judged:
            raise LearnedSparseError(f"validation: {settings.collection}:{split}: no query has a relevant document")
        chosen = draw(judged, settings.queries, (), [seed, 1])
        self.positives = {query: positives[query] for query in chosen}
        self._queries = {query: texts[query] for query in chosen}
        self._pool = TextStore(documents, keep=self._pool_ids(settings, documents, seed))
        self.mixtures = mixtures
        self._depth = settings.depth

    def fingerprint(self) -> str:
        """Hash of the queries, the judgements and the pool."""
        digest = hashlib.blake2b(json.dumps([self._queries, self.positives]).encode(), digest_size=16)
        digest.update(self._pool.fingerprint().encode())
        return digest.hexdigest()

    def _pool_ids(self, settings: Validation, documents: TextStore, seed: int) -> set[str]:
        relevant = {id for ids in self.positives.values() for id in ids}
        if settings.candidates is None:
            return set(draw(documents.ids, settings.pool, relevant, [seed, 2]))
        run = read_run(settings.candidates)
        return relevant | {id for query in self.positives for id, _ in run.get(query, ())}

    def score(self, encode: Encode, component: str | None = None) -> Score:
        """MRR@10 of one component, or of the best mixture of all; of the model as it is if there are no mixtures."""
        if component is None and self.mixtures:
            return self.best_mixture(encode)
        run = search(*self._vectors(encode, component), list(self._queries), self._pool.ids, self._depth)
        return mean_reciprocal_rank(run, self.positives, self._depth), -1

    def best_mixture(self, encode: Encode) -> Score:
        """MRR@10 of the best mixture and its index, of equal ones the first."""
        names = dict.fromkeys(name for mixture in self.mixtures for name in mixture.factors)
        vectors = {name: self._vectors(encode, name) for name in names}
        ids = list(self._queries), self._pool.ids
        scores = mixture_scores(self.mixtures, vectors, *ids, self.positives, self._depth)
        best = int(scores.argmax())
        return float(scores[best]), best

    def _vectors(self, encode: Encode, component: str | None) -> tuple[Vectors, Vectors]:
        """Queries and pool."""
        documents = encode("document", [self._pool[id] for id in self._pool.ids], component)
        return encode("query", list(self._queries.values()), component), documents


def is_better(score: float, best: float | None) -> bool:
    """Whether ``score`` beats ``best``; equal scores keep the earlier weights."""
    return best is None or (not np.isnan(score) and score > best)


def search(
    queries: Vectors, documents: Vectors, query_ids: Sequence[str], document_ids: Sequence[str], depth: int
) -> dict[str, list[tuple[str, float]]]:
    """The ``depth`` best documents of each query by dot product, in the tie order of runs; scores of 0 are no hits."""
    transposed, run = documents.T.tocsr(), {}
    for row, query in enumerate(query_ids):
        scores = (queries[[row]] @ transposed).toarray()[0]
        hits = np.flatnonzero(scores > 0)
        if len(hits) > depth:
            worst = np.partition(scores[hits], len(hits) - depth)[len(hits) - depth]
            hits = hits[scores[hits] >= worst]  # ranked breaks the ties at the cut
        run[query] = ranked((document_ids[hit], float(scores[hit])) for hit in hits.tolist())[:depth]
    return run


def mean_reciprocal_rank(
    run: Mapping[str, Sequence[tuple[str, float]]], positives: Mapping[str, Sequence[str]], depth: int = 10
) -> float:
    """MRR@``depth`` over all of ``positives``; a query without results counts 0.

    >>> mean_reciprocal_rank({"q1": [("a", 2.0), ("b", 1.0)]}, {"q1": ["b"], "q2": ["c"]})
    0.25
    """
    total = 0.0
    for query, relevant in positives.items():
        ids = [id for id, _ in run.get(query, ())][:depth]
        total += next((1 / rank for rank, id in enumerate(ids, start=1) if id in relevant), 0.0)
    return total / len(positives)


def mixture_scores(
    mixtures: Sequence[Mixture],
    vectors: Mapping[str, tuple[Vectors, Vectors]],
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    positives: Mapping[str, Sequence[str]],
    depth: int = 10,
) -> Floats:
    """MRR@``depth`` of each mixture, (mixtures,), when documents are ranked by ``sum_c factor_c * (query_c . doc_c)``.

    ``vectors``: query and document weights of each component. Every component is scored once; the documents that rank
    above a relevant one are then found for all mixtures together. Factors must not be negative.
    """
    factors = np.array([[mixture.factors.get(name, 0.0) for name in vectors] for mixture in mixtures])
    if (factors < 0).any():
        raise LearnedSparseError("mixtures: a component cannot count against a document; give factors of at least 0")
    columns = {id: column for column, id in enumerate(document_ids)}
    order = np.empty(len(document_ids), dtype=np.int64)
    order[np.argsort(np.array(document_ids))] = np.arange(len(document_ids))  # of equal scores the smaller id first
    total = np.zeros(len(mixtures))
    for query, scores in zip(query_ids, _scores_by_query(vectors), strict=True):
        relevant = [columns[id] for id in positives[query] if id in columns]
        ranks = [_reciprocal_ranks(factors, scores, column, order, depth) for column in relevant]
        total += np.max(ranks, axis=0) if ranks else 0.0
    return total / len(query_ids)


def _scores_by_query(vectors: Mapping[str, tuple[Vectors, Vectors]]) -> Iterator[Floats]:
    """The scores (components, documents) of each query."""
    transposed = [(queries, documents.T.tocsr()) for queries, documents in vectors.values()]
    for row in range(transposed[0][0].shape[0]):
        yield np.stack([(queries[[row]] @ documents).toarray()[0] for queries, documents in transposed]).astype(float)


def _reciprocal_ranks(
    factors: Floats, scores: Floats, relevant: int, order: npt.NDArray[np.int64], depth: int
) -> Floats:
    """Reciprocal ranks of a relevant document, (mixtures,); 0 outside the first ``depth`` or without a score."""
    relevant_scores = scores[:, [relevant]]
    if int((scores > relevant_scores).all(axis=0).sum()) >= depth:
        return np.zeros(len(factors))  # too many documents are better in every component
    # no other document can rank higher: two scores of 0 in a component are no tie
    rivals = np.flatnonzero(
        ((scores > relevant_scores) | ((scores == relevant_scores) & (relevant_scores > 0))).any(axis=0)
    )
    rivals = np.append(rivals[rivals != relevant], relevant)
    result, rows = np.zeros(len(factors)), max(1, _MAX_CELLS // len(rivals))
    for start in range(0, len(factors), rows):
        chunk = factors[start : start + rows]
        # added up one by one, so that equal scores stay equal
        mixed = sum(chunk[:, [part]] * scores[part, rivals] for part in range(len(scores)))
        mine = mixed[:, -1:]
        earlier = (mixed > mine) | ((mixed == mine) & (order[rivals] < order[relevant]))
        ranks = 1 + earlier.sum(axis=1)
        result[start : start + rows] = np.where((ranks <= depth) & (mine[:, 0] > 0), 1 / ranks, 0.0)
    return result
