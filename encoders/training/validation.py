"""Validation by retrieval: MRR@10 of held-out queries over a fixed pool of documents, and the best mixture."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from encoders.models import SIDES
from encoders.models.objectives import Mixture
from encoders.training.examples import Examples, Vectors, bm25_run, draw, fingerprint, query_key, text_key
from encoders.training.recipe import Validation
from encoders.training.sources import Corpora
from learned_sparse.collections.collection import Collection, load_collection
from learned_sparse.collections.topics import Query
from learned_sparse.collections.trec import read_run
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import EXPANDED

if TYPE_CHECKING:
    from encoders.training.session import Session

_logger = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]

DEPTH = 10
"""Hits of each query that are validated: MRR@10."""
_MAX_CELLS = 4_000_000  # numbers held at once in the search for a mixture


def hold_out(
    sources: Sequence[Examples], settings: Validation
) -> tuple[list[Examples], list[Examples], dict[str, int]]:
    """Draw ``settings.holdout`` training queries by the hash of their texts, and leave them out of all ``sources``.

    The same queries are drawn with every seed, on every machine, from the files of texts and the sources over the
    collection of ``settings``. Returns the examples that are left, those of the drawn queries, and the numbers of
    queries and of examples left out.
    """
    count, name = settings.holdout or 0, load_collection(settings.collection).name
    named = [(part, part.source.collection) for part in sources]
    drawn_from = [part for part, source in named if source is None or load_collection(source).name == name]
    if not drawn_from:
        raise LearnedSparseError(
            f"validation: holdout: no source has documents of {name}; set validation: collection to that of a source"
        )
    keys = np.unique(np.concatenate([part.query_keys() for part in drawn_from]))
    drawn = [np.isin(part.query_keys(), keys[:count]) for part in sources]
    if any(of_part.all() for of_part in drawn):
        raise LearnedSparseError(
            f"validation: holdout: {count:,} of {len(keys):,} training queries leave a source without examples; "
            "hold out fewer"
        )
    numbers = {"queries": min(count, len(keys)), "examples": sum(int(of_part.sum()) for of_part in drawn)}
    _logger.info(
        "validation: %d of %d training queries are held out, with %d of %d examples",
        *(numbers["queries"], len(keys), numbers["examples"], sum(map(len, sources))),
    )
    kept = [part.subset(~of_part) for part, of_part in zip(sources, drawn, strict=True)]
    held_out = [part.subset(of_part) for part, of_part in zip(sources, drawn, strict=True) if part in drawn_from]
    return kept, held_out, numbers


class Validator:
    """The queries, judgements and pool of a ``Validation``, read once."""

    def __init__(
        self,
        settings: Validation,
        seed: int,
        mixtures: Sequence[Mixture] = (),
        *,
        corpora: Corpora | None = None,
        held_out: Sequence[Examples] | None = None,
    ) -> None:
        """``mixtures`` to choose from; ``corpora`` of documents; ``held_out`` examples for ``holdout``."""
        collection = load_collection(settings.collection)
        expanded = next((part.source.expanded for part in held_out or () if part.source.expanded is not None), None)
        # read several times: all of them may not fit in memory
        documents = partial((corpora or Corpora()).documents, collection, expanded)
        extra: Mapping[str, str] = {}
        if held_out is None:
            known = dict.fromkeys(id for id, _ in documents())
            self._queries, self.positives = _of_split(settings, collection, known, seed)
        else:
            self._queries, self.positives, extra, known = _of_training(held_out, documents())
        relevant, run = {id for ids in self.positives.values() for id in ids}, None
        if settings.bm25 is None:
            ids = set(draw(known, settings.pool, relevant, [seed, 2])) | relevant
        else:
            queries = [Query(id, text) for id, text in self._queries.items()]
            path = bm25_run(queries, documents, settings.bm25, collection=collection.name, split="validation")
            found = read_run(path)
            run = {query.id: [id for id, _ in found.get(query.id, ())] for query in queries}
            ids = {id for hits in run.values() for id in hits} | (set() if settings.rerank else relevant)
        self._pool = {id: text for id, text in chain(documents(), extra.items()) if id in ids}
        self._candidates = run if settings.rerank else None
        self.mixtures = mixtures

    def fingerprint(self) -> str:
        """Hash of the queries, the judgements, the pool and the documents to re-rank."""
        pool = fingerprint(chain.from_iterable(self._pool.items()))
        return fingerprint([self._queries, self.positives, pool, self._candidates])

    def score(
        self, session: Session, component: str | None
    ) -> tuple[float, Mapping[str, Any] | None, dict[str, float]]:
        """MRR@10 of one component or of the whole model, the settings of its best mixture, and other measures.

        A model with mixtures has the score of the best one, of equal ones the first. Other measures, of one search in
        the pool: nDCG@10, mean terms of a text, and FLOPS, the mean number of terms that query and document share.
        """
        mixtures = self.mixtures if component is None else ()
        if self._candidates is not None or mixtures:
            tried = mixtures or [({}, {component: 1.0})]  # type: ignore[dict-item]  # None: the whole model
            score, best = session.on_main(lambda: self._best(session, tried))
            return score, mixtures[best][0] if mixtures else None, {}
        counts: dict[Side, Floats] = {}

        def count(side: Side, vectors: Vectors) -> None:
            terms = np.bincount(vectors.indices[vectors.data > 0], minlength=vectors.shape[1])
            counts[side] = counts.get(side, 0) + np.append(terms, vectors.shape[0]).astype(float)

        queries = [Query(id, text) for id, text in self._queries.items()]
        run = session.rank(queries, self._pool, DEPTH, component=component, observe=count)
        own = counts.get("document", np.zeros_like(counts["query"]))  # a process may have no documents
        sums = {"query": counts["query"], "document": session.gather_array(own[None]).sum(axis=0)}
        terms = {side: of_side[:-1] / of_side[-1] for side, of_side in sums.items()}
        mrr, ndcg = mrr_and_ndcg(run, self.positives, DEPTH)
        measures = {
            "nDCG@10": (ndcg, 6),
            **{f"terms per {side}": (of_side.sum(), 4) for side, of_side in terms.items()},
            "FLOPS": (terms["query"] @ terms["document"], 4),
        }
        others = {name: round(float(value), digits) for name, (value, digits) in measures.items()}
        return mrr, None, others

    def _best(self, session: Session, mixtures: Sequence[Mixture]) -> tuple[float, int]:
        """MRR@10 of the best mixture and its index; queries rank the pool, or each its own candidates."""
        names, ids = list(dict.fromkeys(chain(*(factors for _, factors in mixtures)))), list(self._queries)
        total = np.zeros(len(mixtures))
        groups: Iterable[tuple[Sequence[str], Sequence[str]]] = [(ids, list(self._pool))]
        if self._candidates is not None:
            groups = [([id], self._candidates[id]) for id in ids if self._candidates[id]]
        for queries, documents in groups:
            texts = {"query": [self._queries[id] for id in queries], "document": [self._pool[id] for id in documents]}
            vectors = {name: [session.encode(side, texts[side], name) for side in SIDES] for name in names}
            total += mixture_scores(mixtures, vectors, queries, documents, self.positives, DEPTH) * len(queries)
        scores = total / len(self.positives)
        return float(scores.max()), int(scores.argmax())


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
    held_out: Sequence[Examples], documents: Iterable[tuple[str, str]]
) -> tuple[dict[str, str], dict[str, list[str]], dict[str, str], dict[str, None]]:
    """Held-out queries by the hash of their text, their relevant documents by id, those not in the collection, and the
    ids of all ``documents``.

    Relevant are all documents of the collection with the text of a relevant one: files of texts have no ids.
    """
    queries: dict[str, str] = {}
    relevant: dict[str, dict[int, str]] = {}
    for part in held_out:
        for index in range(len(part)):
            query, texts = part.judged(index)
            id = f"{query_key(query):016x}"
            queries[id] = query
            relevant.setdefault(id, {}).update({_plain_key(text): text for text in texts})
    ids: dict[int, list[str]] = {key: [] for texts in relevant.values() for key in texts}
    known = dict[str, None]()
    for id, text in documents:
        known[id] = None
        if (key := _plain_key(text)) in ids:
            ids[key].append(id)
    extra: dict[str, str] = {}
    for key, text in chain.from_iterable(texts.items() for texts in relevant.values()):
        if not ids[key]:
            extra[f"text-{key:016x}"] = text
            ids[key].append(f"text-{key:016x}")
    if extra:
        _logger.warning("validation: %d relevant texts are not in the collection; the pool has them too", len(extra))
    order = sorted(queries)
    positives = {id: list(chain.from_iterable(ids[key] for key in relevant[id])) for id in order}
    return {id: queries[id] for id in order}, positives, extra, known


def _plain_key(text: str) -> int:
    """``text_key`` of a document without its expansion."""
    return text_key(text.partition(EXPANDED)[0].strip())


def mrr_and_ndcg(
    run: Mapping[str, Sequence[tuple[str, float]]], positives: Mapping[str, Sequence[str]], depth: int = 10
) -> tuple[float, float]:
    """MRR and nDCG at ``depth`` over all of ``positives``, each with the gain 1; a query without results counts 0.

    >>> mrr, ndcg = mrr_and_ndcg({"q1": [("a", 2.0), ("b", 1.0)]}, {"q1": ["b"], "q2": ["c"]})
    >>> mrr, round(ndcg, 4)  # the means of 1/2 and 0, and of 1 / log2(3) and 0
    (0.25, 0.3155)
    """
    discounts, reciprocal_ranks, gain = 1 / np.log2(np.arange(2, depth + 2)), 0.0, 0.0
    for query, relevant in positives.items():
        found = [id in relevant for id, _ in run.get(query, ())][:depth]
        reciprocal_ranks += 1 / (found.index(True) + 1) if True in found else 0.0
        gain += float(discounts[: len(found)] @ found / discounts[: len(relevant)].sum())
    return reciprocal_ranks / len(positives), gain / len(positives)


def mixture_scores(
    mixtures: Sequence[Mixture],
    vectors: Mapping[str, Sequence[Vectors]],
    query_ids: Sequence[str],
    document_ids: Sequence[str],
    positives: Mapping[str, Sequence[str]],
    depth: int = 10,
) -> Floats:
    """MRR@``depth`` of each mixture, (mixtures,), when documents are ranked by ``sum_c factor_c * (query_c . doc_c)``.

    ``vectors``: query and document weights of each component, which is scored once. Ties rank by document id; a
    document without a score is no hit.
    """
    factors = np.array([[of_mixture.get(name, 0.0) for name in vectors] for _, of_mixture in mixtures])
    columns = {id: column for column, id in enumerate(document_ids)}
    order = np.empty(len(document_ids), dtype=np.int64)
    order[np.argsort(np.array(document_ids))] = np.arange(len(document_ids))
    rows = max(1, _MAX_CELLS // max(1, len(document_ids)))
    total = np.zeros(len(mixtures))
    transposed = [(queries, documents.T.tocsr()) for queries, documents in vectors.values()]
    for row, query in enumerate(query_ids):
        scores = [(queries[[row]] @ documents).toarray().astype(float) for queries, documents in transposed]
        for start in range(0, len(factors), rows):
            chunk = factors[start : start + rows]
            # added up one by one, so that equal scores stay equal
            mixed: Floats = sum(chunk[:, [part]] * of_part for part, of_part in enumerate(scores))
            best = np.zeros(len(chunk))
            for column in (columns[id] for id in positives[query] if id in columns):
                score = mixed[:, [column]]
                earlier = (mixed > score) | ((mixed == score) & (order < order[column]))
                ranks = 1 + earlier.sum(axis=1)
                best = np.maximum(best, np.where((ranks <= depth) & (score[:, 0] > 0), 1 / ranks, 0.0))
            total[start : start + rows] += best
    return total / len(query_ids)
