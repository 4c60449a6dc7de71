"""The examples of a run with their hard negatives, searched again where the recipe says so."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from encoders.training.data.examples import Examples, JudgedExamples
from encoders.training.data.mining import bm25_run, hard_negatives, run_of, search_pool
from encoders.training.data.sources import Loaded
from encoders.training.data.texts import TextStore
from encoders.training.folder import RunFolder
from encoders.training.recipe import Recipe, Stage
from encoders.training.session import Session
from encoders.training.validation import search
from learned_sparse.collections import write_run
from learned_sparse.core import LearnedSparseError, Query, index_folder, run_file


class NegativeSource:
    """Holds the examples; ``mine`` replaces their candidates by what the model itself ranks highest."""

    def __init__(self, recipe: Recipe, sources: list[Loaded], folder: RunFolder, session: Session) -> None:
        self._settings, self._folder, self._session = recipe.negatives, folder, session
        self._sources = sources
        self._examples: list[Examples] = [self._initial(part) for part in sources]

    def examples(self) -> list[Examples]:
        """The sources of examples as they stand."""
        return self._examples

    def is_due(self, stage: Stage, step: int, mined_at: int | None) -> bool:
        """Whether the model is to search before ``step``."""
        if self._settings.kind != "self" or stage.objective == "gate" or mined_at == step:
            return False
        return mined_at is None or (self._settings.every is not None and step % self._settings.every == 0)

    def next_due(self, stage: Stage, step: int) -> int:
        """The step at which the next search may be due, or the end of the stage."""
        every = self._settings.every
        if self._settings.kind != "self" or every is None:
            return stage.steps
        return min(stage.steps, (step // every + 1) * every)

    def mine(self, stage: Stage, seed: list[int]) -> int:
        """Search with what ``stage`` trains as it is now; the number of queries searched."""
        count = 0
        for number, part in enumerate(self._sources):
            if isinstance(part.examples, JudgedExamples):
                path = self._folder.mined(number)
                queries, pool = search_pool(part.examples, self._settings, [*seed, number])
                self._session.if_main(lambda: self._search(stage, queries, pool, path))  # noqa: B023
                self._use(number, part.examples, path)
                count += len(queries)
        return count

    def save(self, state: Path) -> None:
        """Copy the runs of the last search into a state folder."""
        for number in range(len(self._sources)):
            if self._folder.mined(number).exists():
                shutil.copyfile(self._folder.mined(number), state / self._folder.mined(number).name)

    def restore(self, state: Path) -> None:
        """Take the hard negatives from the runs in a state folder, if there are any."""
        for number, part in enumerate(self._sources):
            path = state / self._folder.mined(number).name
            if path.exists() and isinstance(part.examples, JudgedExamples):
                shutil.copyfile(path, self._folder.mined(number))
                self._use(number, part.examples, path)

    def _search(self, stage: Stage, queries: Sequence[Query], pool: TextStore, path: Path) -> None:
        documents = self._session.encode("document", [pool[id] for id in pool.ids], stage.component)
        vectors = self._session.encode("query", [query.text for query in queries], stage.component)
        depth = self._settings.last_rank + 1  # one more: the positive is taken out
        write_run(path, search(vectors, documents, [query.id for query in queries], pool.ids, depth), "mined")

    def _use(self, number: int, examples: JudgedExamples, path: Path) -> None:
        candidates = hard_negatives(run_of(path), examples, self._settings, where=str(path))
        self._examples[number] = examples.with_candidates(candidates)

    def _initial(self, part: Loaded) -> Examples:
        examples, settings = part.examples, self._settings
        if not isinstance(examples, JudgedExamples):
            if settings.kind not in ("given", "none"):
                raise LearnedSparseError(
                    f"data: {part.name}: triples bring their negatives; set negatives: kind: given"
                )
            return examples
        if part.source.run is not None:
            path = part.source.run
            return examples.with_candidates(hard_negatives(run_of(path), examples, settings, where=str(path)))
        if settings.kind == "bm25":
            return examples.with_candidates(self._bm25(part, examples))
        if settings.kind == "given" and settings.per_query:
            raise LearnedSparseError(
                f"data: {part.name}: no hard negatives; give the source a 'run', "
                "or set negatives: kind to bm25, self or none"
            )
        return examples

    def _bm25(self, part: Loaded, examples: JudgedExamples) -> dict[str, list[str]]:
        collection, _, split = part.name.partition("/")
        run = run_file(collection, split, "bm25")
        index = index_folder(collection, "bm25-of-training")  # written anew here: others may use the one called bm25
        depth = self._settings.last_rank
        self._session.if_main(lambda: _discard(bm25_run(examples, depth, run=run, index=index)))
        return hard_negatives(bm25_run(examples, depth, run=run, index=index), examples, self._settings, where=str(run))


def _discard(_: object) -> None:
    """A result that is on disk by now."""
