"""Validation by retrieval: MRR@10 of held-out queries over a fixed pool of documents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np

from encoders.models import Mixture
from encoders.training.data import TextStore, as_read, drawn
from encoders.training.recipe import Validation
from encoders.training.validation.mixing import mixture_scores
from encoders.training.validation.retrieval import Vectors, mean_reciprocal_rank, search
from learned_sparse.collections import load_collection, named_split, read_run
from learned_sparse.core import LearnedSparseError

Encode = Callable[[str, list[str]], Vectors]  # (side, texts) -> weights
EncodeComponent = Callable[..., Vectors]  # (side, texts, component=name) -> weights


class Validator:
    """The queries, judgements and pool of a ``Validation``, read once."""

    def __init__(self, settings: Validation, seed: int, *, expanded: bool = False) -> None:
        """``expanded``: documents are read with the text that expands them."""
        collection, split = load_collection(settings.collection), settings.split
        if split == Validation.split:  # the default
            split = named_split(settings.collection, collection, split)
        qrels = collection.qrels(split)
        texts = {query.id: query.text for query in collection.queries(split)}
        documents = TextStore(as_read(collection.documents(), expanded=expanded))
        positives = {
            query: [id for id, relevance in sorted(qrels[query].items()) if relevance > 0 and id in documents]
            for query in sorted(texts.keys() & qrels.keys())
        }
        judged = [query for query, ids in positives.items() if ids]
        if not judged:
            raise LearnedSparseError(f"validation: {settings.collection}:{split}: no query has a relevant document")
        chosen = drawn(judged, settings.queries, (), [seed, 1])
        self.positives = {query: positives[query] for query in chosen}
        self._queries = {query: texts[query] for query in chosen}
        self._pool = TextStore(documents, keep=self._pool_ids(settings, documents, seed))
        self._depth = settings.depth

    def _pool_ids(self, settings: Validation, documents: TextStore, seed: int) -> set[str]:
        relevant = {id for ids in self.positives.values() for id in ids}
        if settings.candidates is None:
            return set(drawn(documents.ids, settings.pool, relevant, [seed, 2]))
        run = read_run(settings.candidates)
        return relevant | {id for query in self.positives for id, _ in run.get(query, ())}

    def score(self, encode: Encode) -> float:
        """MRR@10 of the model behind ``encode``."""
        run = search(*self._vectors(encode), list(self._queries), self._pool.ids, self._depth)
        return mean_reciprocal_rank(run, self.positives, self._depth)

    def best_mixture(self, mixtures: Sequence[Mixture], encode: EncodeComponent) -> tuple[float, int]:
        """MRR@10 of the best mixture, and its place; of equal ones the first."""
        names = dict.fromkeys(name for mixture in mixtures for name in mixture.factors)
        vectors = {name: self._vectors(functools.partial(encode, component=name)) for name in names}
        ids = list(self._queries), self._pool.ids
        scores = mixture_scores(mixtures, vectors, *ids, self.positives, self._depth)
        best = int(scores.argmax())
        return float(scores[best]), best

    def _vectors(self, encode: Encode) -> tuple[Vectors, Vectors]:
        """Queries and pool."""
        documents = encode("document", [self._pool[id] for id in self._pool.ids])
        return encode("query", list(self._queries.values())), documents

    def describe(self) -> str:
        """One line for the log."""
        return f"{len(self.positives)} queries, {len(self._pool)} documents"


def is_better(score: float, best: float | None) -> bool:
    """Whether ``score`` beats ``best``; equal scores keep the earlier weights."""
    return best is None or (not np.isnan(score) and score > best)
