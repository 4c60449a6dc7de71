"""The sources of a recipe: collections with judgements, and files of examples."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from encoders.training.examples import Example, Examples, JudgedExamples, examples_at
from encoders.training.recipe import Negatives, Source
from learned_sparse.collections.collection import Collection, load_collection
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import read_qrels
from learned_sparse.core.errors import LearnedSparseError

if TYPE_CHECKING:
    pass

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(kw_only=True)
class Corpora:
    """The documents of collections, each collection read once for all sources and the validation of a recipe."""

    reads_expanded: bool = False
    """With their expansion text."""
    on_bad_line: OnBadLine = "error"
    """See ``DocumentReader``."""
    _texts: dict[tuple[object, ...], dict[str, str]] = dataclasses.field(default_factory=dict)

    def texts(self, collection: Collection, expanded: Path | None = None) -> dict[str, str]:
        """The texts of ``collection`` by id; ``expanded``: file with their predicted queries."""
        key = repr(collection.description.corpus), collection.root, expanded
        if key not in self._texts:
            self._texts[key] = dict(self.documents(collection, expanded))
        return self._texts[key]

    def documents(self, collection: Collection, expanded: Path | None = None) -> Iterable[tuple[str, str]]:
        """Id and text of all documents of ``collection``: ``texts`` if they were read, else those of its files."""
        if expanded is not None and not self.reads_expanded:
            raise LearnedSparseError(f"expanded: {expanded}: this model does not read expanded text; leave it out")
        key = repr(collection.description.corpus), collection.root, expanded
        if key in self._texts:
            return self._texts[key].items()
        documents = collection.documents(self.on_bad_line, expanded)
        return ((each.id, each.with_expanded if self.reads_expanded else each.text) for each in documents)


def load_source(source: Source, negatives: Negatives, corpora: Corpora | None = None) -> Examples:
    """Read one source, its documents from ``corpora``; ``draw_by`` searches hard negatives later."""
    if source.examples is not None or source.scores is not None:
        from encoders.training.files import ExampleFile, TeacherScores
    if source.collection is None:
        return ExampleFile(source, negatives)
    collection, corpora = load_collection(source.collection), corpora or Corpora()
    if source.split == Source.split and source.topics is None:
        source = dataclasses.replace(source, split=collection.choose_split(default=source.split))
    topics = read_queries(source.topics) if source.topics is not None else collection.queries(source.split)
    queries = {query.id: query.text for query in topics}
    texts = corpora.texts(collection, source.expanded)
    teacher = None if source.scores is None else TeacherScores(source.scores)
    if source.examples is not None:
        return ExampleFile(source, negatives, queries=queries, texts=texts, scores=teacher)
    qrels = read_qrels(source.qrels) if source.qrels is not None else collection.qrels(source.split)
    where, unusable, positives = f"data: {source.collection}:{source.split}", Counter[str](), dict[str, list[str]]()
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
    examples = JudgedExamples(queries, positives, texts, teacher, negatives)
    examples.source, examples.name = source, f"{collection.name}/{source.split}"
    return examples


def examples_in_order(
    data: Sequence[Source], negatives: Negatives, count: int, seed: int, on_bad_line: OnBadLine = "error"
) -> Iterator[Example]:
    """``count`` examples of the sources ``data``, shuffled; for other trainers. Nothing is mined."""
    corpora = Corpora(on_bad_line=on_bad_line)
    sources = [load_source(source, negatives, corpora) for source in data]
    for part in sources:
        part.draw_by(negatives)
    return examples_at(sources, range(count), seed, seed)
