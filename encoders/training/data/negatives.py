"""Hard negatives: from a TREC run, from BM25 in Lucene, or mined with the model being trained."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from encoders.training.data.examples import Examples, JudgedExamples, LoadedSource
from encoders.training.data.texts import TextStore, text_key
from encoders.training.recipe import Negatives
from learned_sparse.collections import read_run, write_run
from learned_sparse.core import (
    EXPANDED,
    Document,
    LearnedSparseError,
    Query,
    index_folder,
    locked,
    read_json,
    run_file,
    write_json,
)

Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id to ``(document id, score)``, best first."""
Rank = Callable[[Sequence[Query], TextStore, int], Run]
"""``(queries, documents, depth)`` to the run of the model being trained."""
IfMain = Callable[[Callable[[], object]], None]
"""Calls its argument in the main process while the other processes wait."""


class NegativeSampler:
    """The examples of a run with their hard negatives; ``mine`` replaces the candidates by those of the model."""

    def __init__(
        self, settings: Negatives, sources: Sequence[LoadedSource], mined: Callable[[int], Path], if_main: IfMain
    ) -> None:
        """``mined(number)``: path of the run that mining writes for source ``number``."""
        self._settings, self._sources, self._mined, self._if_main = settings, sources, mined, if_main
        self._examples: list[Examples] = [self._initial(part) for part in sources]

    def examples(self) -> list[Examples]:
        """The sources of examples with their current candidates."""
        return self._examples

    def is_due(self, step: int, mined_at: int | None) -> bool:
        """Whether to mine before ``step``, if the last mining was at step ``mined_at``."""
        if self._settings.kind != "self" or mined_at == step:
            return False
        return mined_at is None or (self._settings.every is not None and step % self._settings.every == 0)

    def next_due(self, step: int, steps: int) -> int:
        """The next step at which mining may be due; ``steps``, the end of the stage, if there is none before."""
        every = self._settings.every
        return steps if self._settings.kind != "self" or every is None else min(steps, (step // every + 1) * every)

    def mine(self, rank: Rank, seed: Sequence[int]) -> int:
        """Take the candidates from the results of ``rank``; returns the number of queries searched."""
        count = 0
        for number, part in enumerate(self._sources):
            if isinstance(part.examples, JudgedExamples):
                path, queries, pool = self._mined(number), *search_pool(part.examples, self._settings, [*seed, number])

                def search(path: Path = path, queries: list[Query] = queries, pool: TextStore = pool) -> None:
                    depth = self._settings.last_rank + 1  # one more, because the positive is removed
                    write_run(path, rank(queries, pool, depth), "mined")

                self._if_main(search)
                self._use(number, part.examples, path)
                count += len(queries)
        return count

    def save(self, state: Path) -> None:
        """Copy the runs of the last mining into a state folder."""
        for number in range(len(self._sources)):
            if self._mined(number).exists():
                shutil.copyfile(self._mined(number), state / self._mined(number).name)

    def restore(self, state: Path) -> None:
        """Take the candidates from the runs in a state folder, if there are any."""
        for number, part in enumerate(self._sources):
            path = state / self._mined(number).name
            if path.exists() and isinstance(part.examples, JudgedExamples):
                shutil.copyfile(path, self._mined(number))
                self._use(number, part.examples, path)

    def _use(self, number: int, examples: JudgedExamples, path: Path) -> None:
        candidates = hard_negatives(read_run(path), examples, self._settings, where=str(path))
        self._examples[number] = examples.with_candidates(candidates)

    def _initial(self, part: LoadedSource) -> Examples:
        examples, settings = part.examples, self._settings
        run: Run
        if not isinstance(examples, JudgedExamples):
            if settings.kind not in ("given", "none"):
                raise LearnedSparseError(
                    f"data: {part.name}: triples bring their negatives; set negatives: kind: given"
                )
            return examples
        if part.source.run is not None:
            run, where = read_run(part.source.run), part.source.run
        elif settings.kind == "bm25":
            collection, _, split = part.name.partition("/")
            where = run_file(collection, split, "bm25")
            queries = [Query(id, examples.queries[id]) for id in examples.positives]
            run = bm25_run(
                queries, examples.texts, settings.last_rank, collection=collection, run=where, if_main=self._if_main
            )
        elif settings.kind == "given" and settings.per_query:
            raise LearnedSparseError(
                f"data: {part.name}: no hard negatives; give the source a 'run', "
                "or set negatives: kind to bm25, self or none"
            )
        else:
            return examples
        return examples.with_candidates(hard_negatives(run, examples, settings, where=str(where)))


def hard_negatives(run: Run, examples: JudgedExamples, negatives: Negatives, *, where: str) -> dict[str, list[str]]:
    """Candidates per query: ranks ``first_rank`` to ``last_rank`` of the run, counted from 1.

    Positives, documents with the text of a positive, and documents without text are left out. ``where`` opens the
    message about an unknown document.
    """
    candidates = {}
    for query, positives in examples.positives.items():
        relevant = {text_key(examples.texts[id]) for id in positives}
        ids = [id for id, _ in run.get(query, ())][negatives.first_rank - 1 : negatives.last_rank]
        for id in ids:
            if id not in examples.texts:
                raise LearnedSparseError(f"{where}: document {id!r} is not in the training collection")
        candidates[query] = [
            id for id in ids if text_key(examples.texts[id]) not in relevant and not examples.texts.is_empty(id)
        ]
    return candidates


def call(action: Callable[[], object]) -> None:
    """``IfMain`` of a single process."""
    action()


def bm25_run(
    queries: Sequence[Query],
    texts: Iterable[Document],
    depth: int,
    *,
    collection: str,
    run: Path,
    if_main: IfMain = call,
) -> Run:
    """``queries`` searched in ``texts`` with BM25 (Lucene, k1 = 0.9, b = 0.4); the file ``run`` keeps the results.

    Documents are indexed without their expansion text, so that all models get the same candidates. JSON files beside
    the run and beside the index of ``collection`` name what they were made from; if it has changed, the texts are
    indexed and the queries searched again.
    """
    index = index_folder(collection, "bm25-of-training")  # not "bm25", which other commands may be reading
    plain = hashlib.blake2b(digest_size=16)
    for document in texts:
        plain.update(f"{document.id}\0{document.text.partition(EXPANDED)[0]}\0".encode("utf-8", "surrogatepass"))
    asked = hashlib.blake2b(
        "\0".join(f"{q.id}\0{q.text}" for q in queries).encode("utf-8", "surrogatepass"), digest_size=16
    )
    texts_only = {"texts": plain.hexdigest()}
    made_from = {**texts_only, "queries": asked.hexdigest(), "depth": depth}

    def make() -> None:
        with locked(index.with_name(f"{index.name}.search"), wait=True):  # another training may be searching here
            if _is_made_from(run, made_from):
                return
            from learned_sparse.index import build_bm25_index
            from learned_sparse.lucene import search_bm25

            if not _is_made_from(index, texts_only):
                documents = (Document(document.id, document.text.partition(EXPANDED)[0]) for document in texts)
                _provenance(index).unlink(missing_ok=True)
                build_bm25_index(documents, index, overwrite=True)
                write_json(_provenance(index), texts_only)
            _provenance(run).unlink(missing_ok=True)
            write_run(run, search_bm25(index, list(queries), depth), "bm25")
            write_json(_provenance(run), made_from)

    if_main(make)
    return read_run(run)


def _provenance(path: Path) -> Path:
    return path.with_suffix(".json")


def _is_made_from(path: Path, source: Mapping[str, object]) -> bool:
    return path.exists() and _provenance(path).exists() and read_json(_provenance(path)) == source


def search_pool(examples: JudgedExamples, negatives: Negatives, seed: Sequence[int]) -> tuple[list[Query], TextStore]:
    """The queries and documents of one mining, drawn with ``seed``."""
    chosen = draw(examples.positives, negatives.queries, (), seed)
    positives = [id for query in chosen for id in examples.positives[query]]
    pool = draw(examples.texts.ids, negatives.pool, positives, seed)
    return [Query(id, examples.queries[id]) for id in chosen], TextStore(examples.texts, keep=set(pool))


def draw(ids: Iterable[str], count: int | None, always: Iterable[str], seed: Sequence[int]) -> list[str]:
    """``count`` ids drawn at random (None: all) and the ids of ``always``, in the order of ``ids``."""
    all_ids = list(ids)
    if count is None or count >= len(all_ids):
        return all_ids
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(all_ids), size=count, replace=False)
    kept = {all_ids[int(index)] for index in drawn} | set(always)
    return [id for id in all_ids if id in kept]
