"""Turns the ``data`` of a recipe into training examples."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from encoders.training.data.examples import Examples, JudgedExamples, TripleFile, check_known, triple_ids
from encoders.training.data.texts import TextStore, as_read
from encoders.training.recipe import Negatives, Source
from learned_sparse.collections import Collection, load_collection, named_split, read_qrels, read_queries
from learned_sparse.core import LearnedSparseError


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """One source of the recipe as examples, with what mining needs to know about it."""

    source: Source
    name: str
    examples: Examples


def load(source: Source, negatives: Negatives, *, expanded: bool = False) -> Loaded:
    """Read one source; hard negatives that must be mined are added later.

    ``expanded``: documents of collections are read with the text that expands them.
    """
    per_query = 0 if negatives.kind == "none" else negatives.per_query
    if source.triples is not None:
        return Loaded(
            source=source, name=source.triples.stem, examples=_triples(source.triples, source, per_query, expanded)
        )
    if source.collection is None:
        raise LearnedSparseError("data: a source needs 'collection' or 'triples'")
    source, collection = _found(source, source.collection)
    queries, qrels = _topics(source, collection)
    positives = _positives(source, queries, qrels)
    texts = TextStore(as_read(collection.documents(), expanded=expanded))
    known = {query: [id for id in documents if id in texts] for query, documents in positives.items()}
    known = {query: documents for query, documents in known.items() if documents}
    if not known:
        raise LearnedSparseError(f"data: {source.collection}:{source.split}: no query has a relevant document here")
    examples = JudgedExamples(queries, known, texts, per_query=per_query, short=negatives.short)
    return Loaded(source=source, name=f"{collection.name}/{source.split}", examples=examples)


def _found(source: Source, name: str) -> tuple[Source, Collection]:
    """The collection ``name``, and ``source`` with the split that is meant."""
    collection = load_collection(name)
    if source.split != Source.split:  # not the default: that very one
        return source, collection
    return dataclasses.replace(source, split=named_split(name, collection, source.split)), collection


def _topics(source: Source, collection: Collection) -> tuple[dict[str, str], Mapping[str, Mapping[str, int]]]:
    if (source.topics is None) != (source.qrels is None):
        raise LearnedSparseError(f"data: {source.collection}: 'topics' and 'qrels' go together")
    if source.topics is not None and source.qrels is not None:
        found, qrels = read_queries(source.topics), read_qrels(source.qrels)
    else:
        found, qrels = collection.queries(source.split), collection.qrels(source.split)
    return {query.id: query.text for query in found}, qrels


def _positives(
    source: Source, queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]
) -> dict[str, list[str]]:
    return {
        query: sorted(id for id, relevance in documents.items() if relevance >= source.min_relevance)
        for query, documents in sorted(qrels.items())
        if query in queries
    }


def _triples(path: Path, source: Source, per_query: int, expanded: bool) -> TripleFile:
    if source.collection is None:
        return TripleFile(path, per_query=per_query)
    source, collection = _found(source, source.collection)
    query_ids, document_ids = set(), set()
    for query, positive, negative in triple_ids(path):
        query_ids.add(query)
        document_ids |= {positive, negative}
    found = read_queries(source.topics) if source.topics is not None else collection.queries(source.split)
    queries = {query.id: query.text for query in found if query.id in query_ids}
    texts = TextStore(as_read(collection.documents(), expanded=expanded), keep=document_ids)
    check_known(path, "query", query_ids, queries)
    check_known(path, "document", document_ids, texts)
    return TripleFile(path, per_query=per_query, queries=queries, texts=texts)


def sample_texts(loaded: Sequence[Loaded], count: int, seed: int) -> dict[str, list[str]]:
    """Up to ``count`` distinct training queries and as many documents, for calibration."""
    rng = np.random.default_rng([seed, 2**20])
    found: dict[str, list[str]] = defaultdict(list)
    for part in loaded:
        share = -(-count // len(loaded))
        places = rng.permutation(len(part.examples))[:share]
        for place in sorted(places.tolist()):
            example = part.examples.get(place, rng)
            found["query"].append(example.query)
            found["document"] += [example.positive, *example.negatives]
    return {side: list(dict.fromkeys(texts))[:count] for side, texts in found.items()}


def sample_documents(loaded: Sequence[Loaded], count: int, seed: int) -> list[str]:
    """Up to ``count`` documents of each source: of its collection, or positives where there are only triples."""
    rng = np.random.default_rng([seed, 2**21])
    found: list[str] = []
    for part in loaded:
        store = part.examples.texts if isinstance(part.examples, JudgedExamples) else None
        places = sorted(rng.permutation(len(part.examples if store is None else store))[:count].tolist())
        found += [part.examples.get(p, rng).positive if store is None else store[store.ids[p]] for p in places]
    return found
