"""Hard negatives: from a TREC run, from BM25 in Lucene, or mined with the model being trained or another one."""

from __future__ import annotations

import functools
import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from encoders.training.data.examples import Candidates, Examples, JudgedExamples
from encoders.training.data.mining import Run
from encoders.training.data.sources import LoadedSource
from encoders.training.data.texts import IfMain, TextStore, call, text_key
from encoders.training.recipe import Negatives, NegativeSource
from learned_sparse.collections.trec import read_run, write_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import TRAINING_INDEX, index_folder, read_json, run_file, write_json
from learned_sparse.core.locks import locked
from learned_sparse.core.records import EXPANDED, Document, Query

MINED = ("self", "checkpoint")
"""Kinds of sources that a model searches while a stage runs."""
Rank = Callable[[Sequence[Query], TextStore, int], Run]
"""``(queries, documents, depth)`` to the run of the model being trained."""


class NegativeSampler:
    """The examples of a stage with their hard negatives; ``mine`` replaces the candidates that a model searches."""

    def __init__(
        self, settings: Negatives, sources: Sequence[LoadedSource], mined: Callable[[int, int], Path], if_main: IfMain
    ) -> None:
        """``mined(number, part)``: the run that mining writes for source ``number`` and a part of ``settings``."""
        self.settings, self._sources, self._if_main = settings, sources, if_main
        self._candidates: list[list[Candidates]] = []
        self._searched: dict[tuple[int, int], tuple[JudgedExamples, Path]] = {}
        for number, source in enumerate(sources):
            examples = source.examples
            parts = settings.parts if isinstance(examples, JudgedExamples) else ()
            self._candidates.append([self._initial(source, part) for part in parts])
            for index, part in enumerate(parts):
                if part.kind in MINED and isinstance(examples, JudgedExamples):
                    self._searched[number, index] = examples, mined(number, index)

    def examples(self) -> list[Examples]:
        """The sources of examples with their current candidates."""
        pairs = zip(self._sources, self._candidates, strict=True)
        return [source.examples.drawing(self.settings, *candidates) for source, candidates in pairs]

    def is_due(self, step: int, mined_at: int | None) -> bool:
        """Whether to mine before ``step``, if the last mining was at step ``mined_at``."""
        if not any(part.kind in MINED for part in self.settings.parts) or mined_at == step:
            return False
        return mined_at is None or (self._every is not None and step % self._every == 0)

    def next_due(self, step: int, steps: int) -> int:
        """The next step at which mining may be due; ``steps``, the end of the stage, if there is none before."""
        return steps if self._every is None else min(steps, (step // self._every + 1) * self._every)

    @property
    def _every(self) -> int | None:
        return next((part.every for part in self.settings.parts if part.kind == "self"), None)

    def mine(self, ranking: Callable[[NegativeSource], Rank], seed: Sequence[int], *, again: bool = False) -> int:
        """Take the candidates from the results of ``ranking(part)``, with ``again`` only those of the trained model.

        Every process takes part in the search. Returns the number of queries searched.
        """
        count = 0
        for (number, index), (examples, path) in self._searched.items():
            part = self.settings.parts[index]
            if again and part.kind != "self":
                continue
            queries, pool = search_pool(examples, part, [*seed, number, *([index] if index else [])])
            run = ranking(part)(queries, pool, part.ranks[1] + 1)  # one more, because the positive is removed
            self._if_main(functools.partial(write_run, path, run, "mined"))
            self._use(number, index)
            count += len(queries)
        return count

    def save(self, state: Path) -> None:
        """Copy the runs of the last mining into a state folder."""
        for _, path in self._searched.values():
            if path.exists():
                shutil.copyfile(path, state / path.name)

    def restore(self, state: Path) -> None:
        """Take the candidates from the runs in a state folder, if there are any."""
        for (number, index), (_, path) in self._searched.items():
            if (state / path.name).exists():
                shutil.copyfile(state / path.name, path)
                self._use(number, index)

    def _use(self, number: int, index: int) -> None:
        (examples, path), part = self._searched[number, index], self.settings.parts[index]
        ids = hard_negatives(read_run(path), examples, part, where=str(path))
        self._candidates[number][index] = Candidates(ids, part.share)

    def _initial(self, source: LoadedSource, part: NegativeSource) -> Candidates:
        """The candidates of a part before anything is mined."""
        examples: Any = source.examples
        run: Run
        if part.kind in ("random", "none"):
            return Candidates({}, part.share, random=True)
        if source.source.run is not None and part.kind != "checkpoint":
            where, run = source.source.run, read_run(source.source.run)
            if not any(map(run.get, examples.positives)):
                raise LearnedSparseError(
                    f"{where}: no hits for any query of {source.name}; is it the run of another split?"
                )
        elif part.kind == "bm25":
            collection, _, split = source.name.partition("/")
            where = run_file(collection, split, "bm25")
            queries = [Query(id, examples.queries[id]) for id in examples.positives]
            options: dict[str, Any] = {"collection": collection, "run": where, "if_main": self._if_main}
            run = bm25_run(queries, examples.texts, part.ranks[1], **options)
        elif part.kind == "given" and self.settings.count:
            raise LearnedSparseError(
                f"data: {source.name}: no hard negatives; give the source a 'run' of its queries (--data "
                f"{source.source.collection}:{source.source.split},run=FILE), or --set negatives.kind=bm25, which "
                "searches them; other kinds are self, random and none"
            )
        else:
            return Candidates({}, part.share)
        return Candidates(hard_negatives(run, examples, part, where=str(where)), part.share)


def hard_negatives(
    run: Run, examples: JudgedExamples, negatives: NegativeSource, *, where: str
) -> dict[str, list[str]]:
    """Candidates per query: the ``ranks`` of the run, counted from 1.

    Positives, documents with the text of a positive, and documents without text are left out. ``where`` opens the
    message about an unknown document.
    """
    candidates = {}
    for query, positives in examples.positives.items():
        relevant = {text_key(examples.texts[id]) for id in positives}
        ids = [id for id, _ in run.get(query, ())][negatives.ranks[0] - 1 : negatives.ranks[1]]
        for id in ids:
            if id not in examples.texts:
                raise LearnedSparseError(f"{where}: document {id!r} is not in the training collection")
        candidates[query] = [
            id for id in ids if text_key(examples.texts[id]) not in relevant and not examples.texts.is_empty(id)
        ]
    return candidates


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
    index = index_folder(collection, TRAINING_INDEX)
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
            from learned_sparse.index.build import build_bm25_index
            from learned_sparse.lucene.searchers import search_bm25

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


def search_pool(
    examples: JudgedExamples, negatives: NegativeSource, seed: Sequence[int]
) -> tuple[list[Query], TextStore]:
    """The queries and documents of one mining, drawn with ``seed``."""
    positives = [id for ids in examples.positives.values() for id in ids]
    pool = draw(examples.texts.ids, negatives.pool, positives, seed)
    return [Query(id, examples.queries[id]) for id in examples.positives], TextStore(examples.texts, keep=set(pool))


def draw(ids: Iterable[str], count: int | None, always: Iterable[str], seed: Sequence[int]) -> list[str]:
    """``count`` ids drawn at random (None: all) and the ids of ``always``, in the order of ``ids``."""
    all_ids = list(ids)
    if count is None or count >= len(all_ids):
        return all_ids
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(all_ids), size=count, replace=False)
    kept = {all_ids[int(index)] for index in drawn} | set(always)
    return [id for id in all_ids if id in kept]
