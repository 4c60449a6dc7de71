"""The sources of a recipe as examples: what is read from files, collections and judgements, and samples of it."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from encoders.training.data.examples import Examples, JudgedExamples
from encoders.training.data.files import ExampleFile
from encoders.training.data.id_triples import IdTriples, read_ids
from encoders.training.data.scores import TeacherScores
from encoders.training.data.texts import TextStore, TextStores
from encoders.training.recipe import Negatives, Source
from learned_sparse.collections.collection import Collection, load_collection
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import read_qrels
from learned_sparse.core.errors import LearnedSparseError

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class LoadedSource:
    """One source of the recipe as examples; ``name`` is ``COLLECTION/SPLIT`` or the stem of a triples file."""

    source: Source
    name: str
    examples: Examples

    @property
    def collection(self) -> str | None:
        """Name of the collection of the documents; None for triples of texts."""
        return None if self.source.collection is None else load_collection(self.source.collection).name


def load_source(source: Source, negatives: Negatives, stores: TextStores | None = None) -> LoadedSource:
    """Read one source, its documents from ``stores``; hard negatives that must be searched are added later."""
    stores = stores or TextStores()
    if source.triples is not None or source.examples is not None:
        return _of_file(source, negatives, stores)
    if source.collection is None:
        raise LearnedSparseError("data: a source needs 'collection', 'triples' or 'examples'")
    if source.systems:
        raise LearnedSparseError(f"data: {source.collection}: 'systems' are those of a file of 'examples'")
    source, collection = _open_collection(source, source.collection)
    where = f"data: {source.collection}:{source.split}"
    queries, qrels = _topics(source, collection)
    texts = stores.texts(collection, expanded=source.expanded)
    positives = _positives(queries, qrels, texts, source.min_relevance, where)
    teacher = None if source.scores is None else TeacherScores(source.scores)
    if teacher is not None:
        positives = _scored(positives, teacher, where)
    if not positives:
        raise LearnedSparseError(f"{where}: no query has a relevant document here")
    examples = JudgedExamples(queries, positives, texts, teacher, negatives)
    return LoadedSource(source=source, name=f"{collection.name}/{source.split}", examples=examples)


def _scored(positives: Mapping[str, Sequence[str]], teacher: TeacherScores, where: str) -> dict[str, list[str]]:
    """The positives that a teacher has scored: no other one can be distilled."""
    known = {
        query: [id for id, score in zip(ids, teacher.of(query, ids), strict=True) if np.isfinite(score)]
        for query, ids in positives.items()
    }
    if missing := sum(map(len, positives.values())) - sum(map(len, known.values())):
        _logger.warning("%s: left out %d relevant documents without a teacher's score", where, missing)
    return {query: ids for query, ids in known.items() if ids}


def _of_file(source: Source, negatives: Negatives, stores: TextStores) -> LoadedSource:
    """Examples of a file, of texts or with a collection of ids."""
    if source.triples is not None and source.examples is not None:
        raise LearnedSparseError("data: 'triples' and 'examples' are two sources; make a list entry of each")
    path = source.triples or source.examples or Path()
    if (path.suffix == ".jsonl") != (source.examples is not None):
        raise LearnedSparseError(f"data: {path}: 'examples' are JSON lines (.jsonl), 'triples' are columns (.tsv)")
    if source.systems and source.examples is None:
        raise LearnedSparseError(f"data: {path}: triples have no 'systems'; leave them out")
    if source.collection is None:
        for name in ("expanded", "scores"):
            if getattr(source, name) is not None:
                raise LearnedSparseError(
                    f"data: {path}: texts have no ids to join {name!r} by; train on triples of ids"
                )
        return LoadedSource(
            source=source, name=path.stem, examples=ExampleFile(path, negatives, systems=source.systems)
        )
    source, collection = _open_collection(source, source.collection)
    topics = read_queries(source.topics) if source.topics is not None else collection.queries(source.split)
    queries = {query.id: query.text for query in topics}
    texts = stores.texts(collection, expanded=source.expanded)
    examples: Examples
    # a teacher's scores are joined line by line
    columns = read_ids(path) if source.examples is None and source.scores is None else None
    if columns is not None:
        examples = IdTriples(path, negatives, columns, queries, texts)
    else:
        teacher = None if source.scores is None else TeacherScores(source.scores)
        by_id: dict[str, Any] = {"queries": queries, "texts": texts, "scores": teacher}
        examples = ExampleFile(path, negatives, systems=source.systems, **by_id)
    return LoadedSource(source=source, name=path.stem, examples=examples)


def _open_collection(source: Source, name: str) -> tuple[Source, Collection]:
    """The collection ``name``, and ``source`` with the split of that collection that the default stands for."""
    collection = load_collection(name)
    if source.split != Source.split or source.topics is not None:
        return source, collection
    return dataclasses.replace(source, split=collection.choose_split(default=source.split)), collection


def _topics(source: Source, collection: Collection) -> tuple[dict[str, str], Mapping[str, Mapping[str, int]]]:
    if (source.topics is None) != (source.qrels is None):
        raise LearnedSparseError(f"data: {source.collection}: 'topics' and 'qrels' go together")
    if source.topics is not None and source.qrels is not None:
        queries, qrels = read_queries(source.topics), read_qrels(source.qrels)
    else:
        queries, qrels = collection.queries(source.split), collection.qrels(source.split)
    return {query.id: query.text for query in queries}, qrels


def _positives(
    queries: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]], texts: TextStore, level: int, where: str
) -> dict[str, list[str]]:
    """The documents of grade ``level`` or higher of each query; judgements without a text to learn from are logged."""
    positives: dict[str, list[str]] = {}
    unusable: Counter[str] = Counter()
    for query, grades in sorted(qrels.items()):
        for document in sorted(id for id, grade in grades.items() if grade >= level):
            if query not in queries:
                unusable["whose query is not among the topics"] += 1
            elif document not in texts:
                unusable["whose document is not in the collection"] += 1
            elif not queries[query].strip() or texts.is_empty(document):
                unusable["whose query or document has no text"] += 1
            else:
                positives.setdefault(query, []).append(document)
    for reason, count in unusable.items():
        _logger.warning("%s: left out %d judgements %s", where, count, reason)
    return positives


def sample_texts(sources: Sequence[LoadedSource], count: int, seed: int) -> dict[str, list[str]]:
    """Up to ``count`` distinct training queries and as many documents, for calibration."""
    rng = np.random.default_rng([seed, 2**20])
    texts: dict[str, list[str]] = defaultdict(list)
    for part in sources:
        share = -(-count // len(sources))
        indices = rng.permutation(len(part.examples))[:share]
        for index in sorted(indices.tolist()):
            example = part.examples.get(index, rng)
            texts["query"].append(example.query)
            texts["document"] += [example.positive, *example.negatives]
    return {side: list(dict.fromkeys(side_texts))[:count] for side, side_texts in texts.items()}


def sample_documents(sources: Sequence[LoadedSource], count: int, seed: int) -> list[str]:
    """Up to ``count`` documents of each source: of its collection, or positives of a triples file."""
    rng = np.random.default_rng([seed, 2**21])
    documents: list[str] = []
    for part in sources:
        store = part.examples.texts if isinstance(part.examples, JudgedExamples) else None
        indices = sorted(rng.permutation(len(part.examples if store is None else store))[:count].tolist())
        documents += [part.examples.get(i, rng).positive if store is None else store[store.ids[i]] for i in indices]
    return documents
