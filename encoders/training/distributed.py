"""Mining with the workers of a Ray cluster, each of which encodes and searches blocks: the hits of one process.

Texts, weights and vectors of queries reach the workers as files below the folder of the run. The blocks, and so what is
encoded together, are those of ``best_documents``; hits are merged in one order, whichever worker found them.
"""

from __future__ import annotations

import functools
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.sparse import load_npz, save_npz

from encoders.backbone import choose_device
from encoders.training.data import (
    BLOCK,
    MINED,
    SAVE_EVERY,
    Best,
    EncodeSide,
    MappedTexts,
    Rank,
    Run,
    TextStore,
    number_of_blocks,
    restore_hits,
    save_hits,
    search_block,
)
from encoders.training.recipe import Recipe, Stage
from encoders.training.session import Session
from encoders.training.state import load_weights, save_weights
from learned_sparse.core import LearnedSparseError, Query, new_file
from learned_sparse.distribute import Engine, Workers

_TEXTS, _QUERIES, _WEIGHTS = "texts", "queries.npz", "weights.safetensors"
_TASKS_PER_WORKER = 4
_MAX_BLOCKS = 16
"""Blocks of one task: what the death of a worker loses. The hits of a task take 12 bytes for each of a query's hits."""
_Make = Callable[[], EncodeSide]


def check_mines(recipe: Recipe) -> None:
    """Raise if no stage of ``recipe`` mines negatives: a cluster would have nothing to do."""
    negatives = [recipe.negatives_of(stage) for stage in recipe.stages]
    if not any(part.kind in MINED for settings in negatives for part in settings.parts):
        raise LearnedSparseError(
            "--engine ray mines hard negatives, and no stage of this recipe does so; leave it out, or give negatives "
            f"of kind: {' or '.join(MINED)}"
        )


def ranking_with_ray(
    engine: Engine,
    session: Session,
    stage: Stage,
    checkpoint: str | None,
    *,
    folder: Path,
    state: Path,
    key: str,
    block: int = BLOCK,
) -> Rank:
    """Gives the best documents of each query by ``checkpoint``, or by the current model, as ``Session.ranking`` does.

    The main process waits for the workers; in other processes of the training the run is empty. ``folder`` holds the
    files that the workers read and write, ``state`` the hits so far of a search with this ``key``.
    """

    def rank(queries: Sequence[Query], pool: TextStore, depth: int) -> Run:
        if not session.processes.is_main_process:
            return {}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            pool.save(folder / _TEXTS)
            save_weights(folder / _WEIGHTS, session.model.weighers)
            make = functools.partial(
                _encode_side,
                session.recipe,
                stage,
                checkpoint,
                folder / _WEIGHTS,
                session.device.type,
                session.precision,
            )
            vectors = session.encode_side(checkpoint, stage.component)("query", [query.text for query in queries])
            save_npz(folder / _QUERIES, vectors.tocsr())
            best = Best(len(queries), depth, pool.ids)
            _search(engine, make, best, number_of_blocks(pool, block), folder=folder, state=state, key=key, block=block)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        state.unlink(missing_ok=True)
        return best.run(queries)

    return rank


def _search(
    engine: Engine, make: _Make, best: Best, count: int, *, folder: Path, state: Path, key: str, block: int
) -> None:
    """Add the hits of all blocks that are not in ``state`` to ``best``, as the workers find them."""
    done, saved = restore_hits(state, key, best, range(count)), time.monotonic()
    missing = [number for number in range(count) if number not in done]
    with Workers(engine, BlockWorker, make, folder, best.scores.shape, block) as workers:
        size = max(1, min(_MAX_BLOCKS, len(missing) // (_TASKS_PER_WORKER * workers.count)))
        tasks = [(missing[start : start + size],) for start in range(0, len(missing), size)]
        for number, path in workers.map("search", tasks):
            with np.load(path, allow_pickle=False) as hits:
                best.merge(0, hits["scores"], hits["rows"])
            path.unlink()
            done.update(*tasks[number])
            if time.monotonic() - saved > SAVE_EVERY:
                save_hits(state, key, best, done)
                saved = time.monotonic()


class BlockWorker:
    """Encodes and searches blocks of documents in a process of its own."""

    def __init__(self, make: _Make, folder: Path, shape: tuple[int, int], block: int) -> None:
        """``make`` loads the model; ``shape`` is (queries, hits of each)."""
        self._encode, self._folder, self._block = make(), folder, block
        self._queries = load_npz(folder / _QUERIES)
        self._pool = MappedTexts(folder / _TEXTS)
        self._best = Best(*shape, self._pool.ids)

    def search(self, blocks: Sequence[int]) -> Path:
        """The file with the best hits of each query in ``blocks``, which are at least one."""
        best = self._best
        best.scores[:], best.rows[:] = 0, -1
        for number in blocks:
            search_block(best, self._encode, self._queries, self._pool, number, self._block)
        path = self._folder / f"hits-{blocks[0]:07d}.npz"
        with new_file(path) as temporary, temporary.open("wb") as file:
            np.savez(file, scores=best.scores, rows=best.rows)
        return path


def _encode_side(
    recipe: Recipe, stage: Stage, checkpoint: str | None, weights: Path, device_type: str, precision: str
) -> EncodeSide:
    """What a worker encodes with: the model of the training process, on a device of the same type."""
    device = choose_device("cpu" if device_type == "cpu" else None)
    session = Session(recipe, device.type)
    if (session.device.type, session.precision) != (device_type, precision):
        raise LearnedSparseError(
            f"a worker would encode in {session.precision} on {session.device.type}, and the training in {precision} "
            f"on {device_type}; give --gpus-per-worker 1, or the same precision and --device for both"
        )
    session.use_settings(stage)
    load_weights(weights, session.model.weighers)
    return session.encode_side(checkpoint, stage.component)
