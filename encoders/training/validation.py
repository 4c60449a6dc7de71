"""Validation by retrieval: MRR@10 of held-out queries over a fixed pool of documents, and the best mixture."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from encoders.models.architecture import Mixture
from encoders.training.data.examples import Judged
from encoders.training.data.negatives import Rank, bm25_run, draw
from encoders.training.data.sources import LoadedSource
from encoders.training.data.texts import IfMain, TextStore, TextStores, call, query_key, text_key
from encoders.training.recipe import Validation
from learned_sparse.collections.collection import Collection, load_collection
from learned_sparse.collections.trec import ranked
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import run_file
from learned_sparse.core.records import EXPANDED, Document, Query

_logger = logging.getLogger(__name__)

Vectors = Any  # scipy.sparse.csr_array (texts, dimensions); scipy has no types
Encode = Callable[[Side, Sequence[str], str | None], Vectors]
"""``(side, texts, component)`` to weights; component None: the whole model."""
Floats = npt.NDArray[np.float64]
Score = tuple[float, int]
"""MRR@10, and the index of the mixture that reaches it; -1 if nothing is mixed."""

DEPTH = 10
"""Hits of each query that are validated: MRR@10."""
_MAX_CELLS = 4_000_000  # numbers held at once in the search for a mixture
_RERANKED_AT_ONCE = 32
"""Queries whose candidates are encoded together: with 1,000 each, some gigabytes of vectors of six UHD buckets."""
C = TypeVar("C", bound=str | None)
Part = tuple[Sequence[str], Sequence[str], Mapping[C, tuple[Vectors, Vectors]]]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Training queries that validation uses and no example of training has."""

    judged: tuple[Judged, ...]
    """The queries with their relevant documents, of each source that they were drawn from."""
    queries: int
    examples: int
    """Examples left out of training."""
    expanded: Path | None
    """Predicted queries of the documents in training."""


def hold_out(sources: Sequence[LoadedSource], settings: Validation) -> tuple[list[LoadedSource], HeldOut]:
    """Draw ``settings.holdout`` training queries by hash, and leave their examples out of all ``sources``.

    The hash is that of the query id, or of the text where triples have no ids: the same queries are drawn with every
    seed, on every machine. They come from the triples of texts and from the sources over the collection of
    ``settings``. Examples of a drawn query are left out of every source, also under another id with an equal text.
    """
    count, name = settings.holdout or 0, load_collection(settings.collection).name
    drawn_from = [part.collection in (None, name) for part in sources]
    keys = sorted(
        {key for part, own in zip(sources, drawn_from, strict=True) if own for key in part.examples.query_keys()}
    )
    if not keys:
        raise LearnedSparseError(
            f"validation: holdout: no source has documents of {name}; set validation: collection to that of a source"
        )
    drawn = frozenset(keys[:count])
    judged = [part.examples.judged(drawn) for part, own in zip(sources, drawn_from, strict=True) if own]
    texts = frozenset(query_key(text) for queries in judged for text in queries.queries.values())
    kept = [part.examples.without(drawn if own else (), texts) for part, own in zip(sources, drawn_from, strict=True)]
    if not all(map(len, kept)):
        raise LearnedSparseError(
            f"validation: holdout: {count:,} of {len(keys):,} training queries leave a source without examples; "
            "hold out fewer"
        )
    before, after = (sum(map(len, parts)) for parts in ([part.examples for part in sources], kept))
    _logger.info(
        "validation: %s of %s training queries are held out, with %s of %s examples",
        f"{len(drawn):,}", f"{len(keys):,}", f"{before - after:,}", f"{before:,}",
    )  # fmt: skip
    parts = [replace(part, examples=examples) for part, examples in zip(sources, kept, strict=True)]
    files = [part.source.expanded for part, own in zip(sources, drawn_from, strict=True) if own]
    expanded = next((file for file in files if file is not None), None)
    held_out = HeldOut(judged=tuple(judged), queries=len(drawn), examples=before - after, expanded=expanded)
    return parts, held_out


class Validator:
    """The queries, judgements and pool of a ``Validation``, read once."""

    def __init__(
        self,
        settings: Validation,
        seed: int,
        mixtures: Sequence[Mixture] = (),
        *,
        stores: TextStores | None = None,
        held_out: HeldOut | None = None,
        if_main: IfMain = call,
    ) -> None:
        """``mixtures`` to choose from; ``stores`` of documents; ``held_out`` for settings with ``holdout``."""
        stores = stores or TextStores()
        collection = load_collection(settings.collection)
        expanded = settings.expanded or (held_out.expanded if held_out is not None else None)
        documents = stores.documents(collection, expanded=expanded)  # several times: all of them may not fit in memory
        known = dict.fromkeys(document.id for document in documents)
        extra: Sequence[Document] = ()
        if held_out is None:
            self._queries, self.positives = _of_split(settings, collection, known, seed)
        else:
            self._queries, self.positives, extra = _of_training(held_out, documents)
        relevant, run = {id for ids in self.positives.values() for id in ids}, None
        if settings.bm25 is None:
            ids = set(draw(known, settings.pool, relevant, [seed, 2])) | relevant
        else:
            run = self._bm25(settings.bm25, collection.name, documents, known, if_main)
            ids = {id for hits in run.values() for id in hits} | (set() if settings.rerank else relevant)
        self._pool = TextStore(chain(documents, extra), keep=ids)
        self._candidates = run if settings.rerank else None
        self.mixtures = mixtures

    def fingerprint(self) -> str:
        """Hash of the queries, the judgements, the pool and the documents to re-rank."""
        digest = hashlib.blake2b(json.dumps([self._queries, self.positives]).encode(), digest_size=16)
        digest.update(self._pool.fingerprint().encode())
        if self._candidates is not None:
            digest.update(json.dumps(self._candidates).encode())
        return digest.hexdigest()

    def _bm25(
        self, depth: int, name: str, documents: Iterable[Document], known: Container[str], if_main: IfMain
    ) -> dict[str, list[str]]:
        """BM25's documents of each query."""
        queries = [Query(id, text) for id, text in self._queries.items()]
        digest = hashlib.blake2b(json.dumps(self._queries).encode(), digest_size=4).hexdigest()
        path = run_file(name, f"validation-{digest}", "bm25")  # trainings of other queries have another file
        run = bm25_run(queries, documents, depth, collection=name, run=path, if_main=if_main)
        hits = {query: [id for id, _ in run.get(query, ())] for query in self._queries}
        if (unknown := next((id for ids in hits.values() for id in ids if id not in known), None)) is not None:
            raise LearnedSparseError(f"{path}: document {unknown!r} is not in the validation collection {name}")
        if empty := sum(not ids for ids in hits.values()):
            _logger.warning("BM25: no documents for %s of %s validation queries", f"{empty:,}", f"{len(hits):,}")
        return hits

    def by_search(self, component: str | None) -> bool:
        """Whether ``score`` is one search in the pool, which all processes can share."""
        return self._candidates is None and (component is not None or not self.mixtures)

    def score(
        self,
        encode: Encode,
        component: str | None = None,
        rank: Rank | None = None,
        others: dict[str, float] | None = None,
    ) -> Score:
        """MRR@10 of one component, or of the best mixture of all; of the model as it is if there are no mixtures.

        ``rank`` searches the pool by the same weights as ``encode``, where that is all that is needed. ``others`` gets
        nDCG@10, unless mixtures are tried.
        """
        if rank is not None and self.by_search(component):
            asked = [Query(id, text) for id, text in self._queries.items()]
            return self._measured(rank(asked, self._pool, DEPTH), others), -1
        if component is None and self.mixtures:
            return self.best_mixture(encode)
        run: dict[str, list[tuple[str, float]]] = {}
        for queries, documents, vectors in self._parts(encode, [component]):
            run |= search(*vectors[component], queries, documents, DEPTH)
        return self._measured(run, others), -1

    def _measured(self, run: Mapping[str, Sequence[tuple[str, float]]], others: dict[str, float] | None) -> float:
        if others is not None:
            others["nDCG@10"] = round(ndcg(run, self.positives, DEPTH), 6)
        return mean_reciprocal_rank(run, self.positives, DEPTH)

    def best_mixture(self, encode: Encode) -> Score:
        """MRR@10 of the best mixture and its index, of equal ones the first."""
        names = list(dict.fromkeys(name for mixture in self.mixtures for name in mixture.factors))
        total = np.zeros(len(self.mixtures))
        for queries, documents, vectors in self._parts(encode, names):
            scores = mixture_scores(self.mixtures, vectors, queries, documents, self.positives, DEPTH)
            total += scores * len(queries)
        best = int(total.argmax())
        return float(total[best]) / len(self.positives), best

    def _parts(self, encode: Encode, components: Sequence[C]) -> Iterator[Part[C]]:
        """Ids of queries, ids of the documents they are ranked over, and the vectors of both by component.

        All queries and the pool; or when re-ranking, each query and its candidates, encoded for a few queries at once:
        the candidates of all of them would not fit into memory.
        """
        candidates = self._candidates
        if candidates is None:
            ids = list(self._queries)
            yield ids, self._pool.ids, {name: self._vectors(encode, name, ids, self._pool.ids) for name in components}
            return
        for start in range(0, len(self._queries), _RERANKED_AT_ONCE):
            queries = list(self._queries)[start : start + _RERANKED_AT_ONCE]
            documents = list(dict.fromkeys(id for query in queries for id in candidates[query]))
            rows = {id: row for row, id in enumerate(documents)}
            vectors = {name: self._vectors(encode, name, queries, documents) for name in components}
            for number, query in enumerate(queries):
                if own := [rows[id] for id in candidates[query]]:
                    yield [query], candidates[query], {name: (q[[number]], d[own]) for name, (q, d) in vectors.items()}

    def _vectors(
        self, encode: Encode, component: str | None, queries: Sequence[str], documents: Sequence[str]
    ) -> tuple[Vectors, Vectors]:
        encoded = encode("document", [self._pool[id] for id in documents], component)
        return encode("query", [self._queries[id] for id in queries], component), encoded


def _of_split(
    settings: Validation, collection: Collection, known: Container[str], seed: int
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Queries drawn from the split of ``settings``, and their relevant documents, by query id."""
    split = collection.choose_split(settings.split, "dev")
    qrels = collection.qrels(split)
    texts = {query.id: query.text for query in collection.queries(split)}
    unknown = sum(grade > 0 and id not in known for query in texts for id, grade in qrels.get(query, {}).items())
    if unknown:
        _logger.warning("validation: left out %d judgements whose document is not in the collection", unknown)
    positives = {
        query: [id for id, relevance in sorted(qrels[query].items()) if relevance > 0 and id in known]
        for query in sorted(texts.keys() & qrels.keys())
    }
    judged = [query for query, ids in positives.items() if ids]
    if not judged:
        raise LearnedSparseError(f"validation: {settings.collection}:{split}: no query has a relevant document")
    chosen = draw(judged, settings.queries, (), [seed, 1])
    return {query: texts[query] for query in chosen}, {query: positives[query] for query in chosen}


def _of_training(
    held_out: HeldOut, documents: Iterable[Document]
) -> tuple[dict[str, str], dict[str, list[str]], list[Document]]:
    """Held-out queries, their relevant documents by id, and those of them that are not in the collection.

    Triples of texts have no ids: their documents are those of the collection with the same text.
    """
    queries: dict[str, str] = {}
    positives: dict[str, list[str]] = {}
    ids: dict[int, list[str]] = {
        text_key(text): []
        for part in held_out.judged
        if part.texts
        for texts in part.positives.values()
        for text in texts
    }
    if ids:
        for document in documents:
            key = text_key(document.text.partition(EXPANDED)[0].strip())
            if key in ids:
                ids[key].append(document.id)
    extra: dict[str, Document] = {}
    for part in held_out.judged:
        queries |= part.queries
        for query, relevant in part.positives.items():
            of_query = positives.setdefault(query, [])
            for name in relevant:
                known = [name]
                if part.texts and not (known := ids[text_key(name)]):
                    known = [f"text-{text_key(name):016x}"]
                    extra[known[0]] = Document(known[0], name)
                of_query += [id for id in known if id not in of_query]
    if extra:
        _logger.warning("validation: %d relevant texts are not in the collection; the pool has them too", len(extra))
    order = sorted(queries)
    return {id: queries[id] for id in order}, {id: positives[id] for id in order}, list(extra.values())


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


def ndcg(
    run: Mapping[str, Sequence[tuple[str, float]]], positives: Mapping[str, Sequence[str]], depth: int = 10
) -> float:
    """nDCG@``depth`` over all of ``positives``, each with the gain 1; a query without results counts 0.

    >>> round(ndcg({"q1": [("a", 2.0), ("b", 1.0)]}, {"q1": ["b"], "q2": ["c"]}), 4)  # 1 / log2(3), and 0
    0.3155
    """
    discounts, total = 1 / np.log2(np.arange(2, depth + 2)), 0.0
    for query, relevant in positives.items():
        gains = [id in relevant for id, _ in run.get(query, ())][:depth]
        total += float(discounts[: len(gains)] @ gains / discounts[: len(relevant)].sum())
    return total / len(positives)


class TermCounts:
    """How many of the texts that were encoded have weight in each dimension: FLOPS and terms of a validation."""

    def __init__(self) -> None:
        self._counts: dict[Side, Floats] = {}
        self._texts: dict[Side, int] = {"query": 0, "document": 0}

    def add(self, side: Side, vectors: Vectors) -> None:
        """Count weights (texts, dimensions)."""
        counts = np.bincount(vectors.indices[vectors.data > 0], minlength=vectors.shape[1]).astype(float)
        self._counts[side] = self._counts.get(side, 0) + counts
        self._texts[side] += vectors.shape[0]

    def measures(self, total: Callable[[Floats], Floats]) -> dict[str, float]:
        """Mean terms of a text by side, and FLOPS: the mean number of terms that a query shares with a document.

        ``total`` sums over the processes, which have all queries and different documents each.
        """
        if not self._texts["query"]:
            return {}
        queries = self._counts["query"] / self._texts["query"]
        own = self._counts.get("document", np.zeros_like(queries))  # a process may have no documents
        summed = total(np.append(own, self._texts["document"]))
        documents = summed[:-1] / summed[-1]
        named = {"terms per query": queries.sum(), "terms per document": documents.sum(), "FLOPS": queries @ documents}
        return {name: round(float(value), 4) for name, value in named.items()}


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
