"""The sources of a recipe: their examples, and hard negatives from runs, from BM25, or mined by a model.

Mining finds the best documents of each query by exact dot products: block by block, on all processes, in bounded
memory.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from accelerate import PartialState
from tqdm import tqdm

from encoders.training.data.examples import (
    Candidates,
    Examples,
    JudgedExamples,
    TextStore,
    TextStores,
    fingerprint,
    text_key,
)
from encoders.training.recipe import Negatives, Source
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.topics import read_queries
from learned_sparse.collections.trec import read_qrels, read_run, write_run
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import TRAINING_INDEX, index_folder, locked, run_file
from learned_sparse.core.records import EXPANDED, Document, Query

if TYPE_CHECKING:
    from encoders.training.data.files import TeacherScores

_logger = logging.getLogger(__name__)

Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id to ``(document id, score)``, best first."""
Vectors = Any  # scipy.sparse.csr_array (texts, dimensions); scipy has no types
_CELLS = 4_000_000
"""Scores that mining holds at a time."""
Rank = Callable[[Sequence[Query], TextStore, int], Run]
"""``(queries, documents, depth)`` to the run of a model."""


def if_main(action: Callable[[], object]) -> None:
    """Do ``action`` in the main process of a training, while the other processes wait."""
    state = PartialState()
    if state.is_main_process:
        action()
    state.wait_for_everyone()


def load_source(source: Source, negatives: Negatives, stores: TextStores | None = None) -> Examples:
    """Read one source, its documents from ``stores``; hard negatives that must be searched are added later."""
    if source.examples is not None or source.scores is not None:
        from encoders.training.data.files import ExampleFile, TeacherScores
    if source.collection is None:
        return ExampleFile(source, negatives)
    collection, stores = load_collection(source.collection), stores or TextStores()
    if source.split == Source.split and source.topics is None:
        source = dataclasses.replace(source, split=collection.choose_split(default=source.split))
    topics = read_queries(source.topics) if source.topics is not None else collection.queries(source.split)
    queries = {query.id: query.text for query in topics}
    texts = stores.texts(collection, source.expanded)
    teacher = None if source.scores is None else TeacherScores(source.scores)
    if source.examples is not None:
        return ExampleFile(source, negatives, queries=queries, texts=texts, scores=teacher)
    qrels = read_qrels(source.qrels) if source.qrels is not None else collection.qrels(source.split)
    examples = JudgedExamples(queries, _positives(source, queries, qrels, texts, teacher), texts, teacher, negatives)
    examples.source, examples.name = source, f"{collection.name}/{source.split}"
    return examples


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


def sample_texts(sources: Sequence[Examples], count: int, seed: int) -> dict[str, list[str]]:
    """Up to ``count`` distinct training queries and as many documents, for calibration."""
    rng = np.random.default_rng([seed, 2**20])
    texts: dict[str, list[str]] = defaultdict(list)
    for part in sources:
        share = -(-count // len(sources))
        indices = rng.permutation(len(part))[:share]
        for index in sorted(indices.tolist()):
            example = part.get(index, rng)
            texts["query"].append(example.query)
            texts["document"] += [example.positive, *example.negatives]
    return {side: list(dict.fromkeys(side_texts))[:count] for side, side_texts in texts.items()}


def sample_documents(sources: Sequence[Examples], count: int, seed: int) -> list[str]:
    """Up to ``count`` documents of each source: of its collection, or positives of a triples file."""
    rng = np.random.default_rng([seed, 2**21])
    documents: list[str] = []
    for part in sources:
        store = part.texts if isinstance(part, JudgedExamples) else None
        indices = sorted(rng.permutation(len(part if store is None else store))[:count].tolist())
        documents += [part.get(i, rng).positive if store is None else store[store.ids[i]] for i in indices]
    return documents


class NegativeSampler:
    """The examples of a stage with their hard negatives; ``mine`` replaces the candidates that a model searches."""

    def __init__(
        self, settings: Negatives, sources: Sequence[Examples], mined: Callable[[int], Path] = lambda _: Path()
    ) -> None:
        """``mined(number)``: the run that mining writes for source ``number``."""
        self.settings, self._sources = settings, sources
        self._candidates: dict[int, Candidates] = {}
        self._searched: dict[int, tuple[JudgedExamples, Path]] = {}
        for number, part in enumerate(sources):
            if isinstance(part, JudgedExamples) and settings.per_query:
                self._candidates[number] = self._initial(part)
                if settings.kind in ("self", "checkpoint"):
                    self._searched[number] = part, mined(number)
        self._every = settings.every if settings.kind == "self" else None

    def examples(self) -> list[Examples]:
        """The sources of examples with their current candidates."""
        return [part.drawing(self.settings, self._candidates.get(n, {})) for n, part in enumerate(self._sources)]

    def is_due(self, step: int, mined_at: int | None) -> bool:
        """Whether to mine before ``step``, if the last mining was at step ``mined_at``."""
        if not self._searched or mined_at == step:
            return False
        return mined_at is None or (self._every is not None and step % self._every == 0)

    def next_due(self, step: int, steps: int) -> int:
        """The next step at which mining may be due; ``steps``, the end of the stage, if there is none before."""
        return steps if self._every is None else min(steps, (step // self._every + 1) * self._every)

    def mine(self, rank: Rank) -> int:
        """Take the candidates from the results of ``rank``; returns the number of queries searched.

        Every process takes part in the search.
        """
        count = 0
        for number, (examples, path) in self._searched.items():
            queries = [Query(id, examples.queries[id]) for id in examples.positives]
            run = rank(queries, examples.texts, self.settings.ranks[1] + 1)  # one more: the positive is removed
            if_main(functools.partial(write_run, path, run, "mined"))
            self._candidates[number] = hard_negatives(read_run(path), examples, self.settings, path)
            count += len(queries)
        return count

    def save(self, state: Path) -> None:
        """Copy the runs of the last mining into a state folder."""
        for _, path in self._searched.values():
            if path.exists():
                shutil.copyfile(path, state / path.name)

    def restore(self, state: Path) -> None:
        """Take the candidates from the runs in a state folder, if there are any."""
        for number, (examples, path) in self._searched.items():
            if (state / path.name).exists():
                shutil.copyfile(state / path.name, path)
                self._candidates[number] = hard_negatives(read_run(path), examples, self.settings, path)

    def _initial(self, examples: JudgedExamples) -> Candidates:
        """The candidates before anything is mined."""
        settings, source, where = self.settings, examples.source, examples.source.run
        if settings.kind in ("random", "checkpoint") or (settings.kind == "self" and where is None):
            return {}
        if where is not None:
            run: Run = read_run(where)
            if not any(map(run.get, examples.positives)):
                raise LearnedSparseError(
                    f"{where}: no hits for any query of {examples.name}; is it the run of another split?"
                )
        elif settings.kind == "bm25":
            collection, _, split = examples.name.partition("/")
            queries, texts = [Query(id, examples.queries[id]) for id in examples.positives], examples.texts.__iter__
            run, where = bm25_run(queries, texts, settings.ranks[1], collection=collection, split=split)
        else:
            raise LearnedSparseError(
                f"data: {examples.name}: no hard negatives; give the source a 'run' of its queries (--data "
                f"{source.collection}:{source.split},run=FILE), or --set negatives.kind=bm25, which searches them; "
                "other kinds are self and random, and per_query: 0 needs none"
            )
        return hard_negatives(run, examples, settings, where)


def hard_negatives(run: Run, examples: JudgedExamples, negatives: Negatives, where: Path) -> dict[str, list[str]]:
    """Candidates per query: the ``ranks`` of the run ``where``, counted from 1.

    Positives, documents with the text of a positive, and documents without text are left out.
    """
    candidates = {}
    for query, positives in examples.positives.items():
        relevant = {text_key(examples.texts[id]) for id in positives}
        ids = [id for id, _ in run.get(query, ())][negatives.ranks[0] - 1 : negatives.ranks[1]]
        for id in ids:
            if id not in examples.texts:
                raise LearnedSparseError(f"{where}: document {id!r} is not in the training collection")
        candidates[query] = [
            id for id in ids if text_key(examples.texts[id]) not in relevant and examples.texts[id].strip()
        ]
    return candidates


def bm25_run(
    queries: Sequence[Query], texts: Callable[[], Iterable[Document]], depth: int, *, collection: str, split: str
) -> tuple[Run, Path]:
    """``queries`` searched in ``texts`` with BM25 (Lucene, k1 = 0.9, b = 0.4): the hits, and the file that keeps them.

    Documents are indexed without their expansion text, so that all models get the same candidates. The file's name has
    a hash of queries, texts and depth. An existing file with that name is read instead of searching again.
    """

    def plain_texts() -> Iterator[Document]:
        return (Document(document.id, document.text.partition(EXPANDED)[0]) for document in texts())

    records: Iterable[Query | Document] = itertools.chain(queries, plain_texts())
    digest = fingerprint(itertools.chain([depth], (f"{record.id}\0{record.text}" for record in records)))[:16]
    run, index = run_file(collection, f"{split}-{digest}", "bm25"), index_folder(collection, TRAINING_INDEX)

    processes = PartialState()
    if processes.is_main_process:
        from learned_sparse.index.build import build_bm25_index
        from learned_sparse.lucene.searchers import search_bm25

        with locked(index.with_name(f"{index.name}.search"), wait=True):  # another training may be searching here
            if not run.exists():
                build_bm25_index(plain_texts(), index, overwrite=True)
                write_run(run, search_bm25(index, queries, depth), "bm25")
                shutil.rmtree(index)
    processes.wait_for_everyone()
    return read_run(run), run


def draw(ids: Iterable[str], count: int | None, always: Iterable[str], seed: Sequence[int]) -> list[str]:
    """``count`` ids drawn at random (None: all) and the ids of ``always``, in the order of ``ids``."""
    all_ids = list(ids)
    if count is None or count >= len(all_ids):
        return all_ids
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(all_ids), size=count, replace=False)
    kept = {all_ids[int(index)] for index in drawn} | set(always)
    return [id for id in all_ids if id in kept]


def best_documents(
    encode: Callable[[Side, Sequence[str]], Vectors],
    queries: Sequence[Query],
    pool: TextStore,
    depth: int,
    *,
    process: int = 0,
    processes: int = 1,
    gather: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = lambda array: array,
    block: int = 8192,
) -> dict[str, list[tuple[str, float]]]:
    """The ``depth`` best documents of ``pool`` for each query by dot product, the same in every process.

    Equal scores are ordered by document id; scores of 0 are no hits. Each process encodes and searches every
    ``processes``-th block of ``block`` documents; ``gather`` turns an array ``(1, ...)`` of this process into that of
    all, ``(processes, ...)``. Memory: one block of vectors, and 8 bytes for each of ``depth`` hits of each query.
    """
    order = sorted(range(len(pool)), key=pool.ids.__getitem__, reverse=True)
    position = np.empty(len(pool), np.int64)
    position[order] = np.arange(len(pool))
    # a hit is one number: the bits of its score, which for positive floats order as the floats do, then its position
    best = np.zeros((len(queries), depth), np.int64)
    vectors, at_once = encode("query", [query.text for query in queries]), max(1, _CELLS // block)
    starts = range(process * block, len(pool), processes * block)
    for start in tqdm(starts, "mining", unit=" blocks", leave=False, disable=process > 0 or None):
        documents = encode("document", [pool[id] for id in pool.ids[start : start + block]]).T.tocsr()
        for first in range(0, len(queries), at_once):
            rows = slice(first, first + at_once)
            scores = (vectors[rows] @ documents).toarray().astype(np.float32)
            hits = np.where(
                scores > 0, scores.view(np.int32).astype(np.int64) << 32 | position[start : start + block], 0
            )
            best[rows] = _largest(np.hstack([best[rows], hits]), depth)
    best = np.sort(_largest(np.hstack(list(gather(best[None]))), depth), axis=1)[:, ::-1]
    scores = (best >> 32).astype(np.int32).view(np.float32)
    return {
        query.id: [(pool.ids[order[hit & 0xFFFFFFFF]], score) for hit, score in zip(hits, of_hits, strict=True) if hit]
        for query, hits, of_hits in zip(queries, best.tolist(), scores.tolist(), strict=True)
    }


def _largest(hits: npt.NDArray[np.int64], depth: int) -> npt.NDArray[np.int64]:
    return np.partition(hits, hits.shape[1] - depth, axis=1)[:, hits.shape[1] - depth :]
