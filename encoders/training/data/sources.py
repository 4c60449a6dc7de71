"""The sources of a recipe as examples: what is read from files, collections and judgements, and samples of it."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from encoders.training.data.examples import Examples, JudgedExamples, TeacherScores
from encoders.training.data.files import ExampleFile
from encoders.training.data.texts import TextStore, TextStores
from encoders.training.recipe import Negatives, Source
from learned_sparse.collections.collection import load_collection
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
    _check(source)
    path, stores = source.examples, stores or TextStores()
    examples: Examples
    if source.collection is None and path is not None:
        examples = ExampleFile(path, negatives)
        return LoadedSource(source=source, name=path.stem, examples=examples)
    collection = load_collection(source.collection or "")
    if source.split == Source.split and source.topics is None:
        source = dataclasses.replace(source, split=collection.choose_split(default=source.split))
    topics = read_queries(source.topics) if source.topics is not None else collection.queries(source.split)
    queries = {query.id: query.text for query in topics}
    texts = stores.texts(collection, source.expanded)
    teacher = None if source.scores is None else TeacherScores(source.scores)
    if path is None:
        qrels = read_qrels(source.qrels) if source.qrels is not None else collection.qrels(source.split)
        positives = _positives(source, queries, qrels, texts, teacher)
        examples = JudgedExamples(queries, positives, texts, teacher, negatives)
    else:
        examples = ExampleFile(path, negatives, queries=queries, texts=texts, scores=teacher)
    name = f"{collection.name}/{source.split}" if path is None else path.stem
    return LoadedSource(source=source, name=name, examples=examples)


def _check(source: Source) -> None:
    """Raise if the values contradict each other."""
    problems = {
        "a source needs 'collection' or 'examples'": source.collection is None and source.examples is None,
        "texts have no ids to join 'expanded' or 'scores' by; train on triples of ids": source.collection is None
        and (source.expanded or source.scores),
        "'topics' and 'qrels' go together": source.examples is None
        and (source.topics is None) != (source.qrels is None),
    }
    for problem, is_so in problems.items():
        if is_so:
            raise LearnedSparseError(f"data: {problem}")


def _positives(
    source: Source,
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    texts: TextStore,
    teacher: TeacherScores | None,
) -> dict[str, list[str]]:
    """The relevant documents of each query; judgements without a text or a score to learn from are logged."""
    where, unusable = f"data: {source.collection}:{source.split}", Counter[str]()
    positives: dict[str, list[str]] = {}
    for query, grades in sorted(qrels.items()):
        for document in sorted(id for id, grade in grades.items() if grade >= 1):
            if query not in queries:
                unusable["whose query is not among the topics"] += 1
            elif document not in texts:
                unusable["whose document is not in the collection"] += 1
            elif not queries[query].strip() or not texts[document].strip():
                unusable["whose query or document has no text"] += 1
            elif teacher is not None and np.isnan(teacher.of(query, [document])[0]):
                unusable["without a teacher's score"] += 1
            else:
                positives.setdefault(query, []).append(document)
    for reason, count in unusable.items():
        _logger.warning("%s: left out %d judgements %s", where, count, reason)
    if not positives:
        raise LearnedSparseError(f"{where}: no query has a relevant document here")
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
