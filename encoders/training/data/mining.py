"""The best documents of each query by exact dot products: block by block, on all processes, in bounded memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from encoders.training.data.texts import TextStore
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_file
from learned_sparse.core.records import Query

Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id to ``(document id, score)``, best first."""
Vectors = Any  # scipy.sparse.csr_array (texts, dimensions); scipy has no types
EncodeSide = Callable[[Side, Sequence[str]], Vectors]
Gather = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""An array ``(1, ...)`` of this process to those of all processes, ``(processes, ...)``."""

BLOCK = 8192
"""Documents that are encoded and searched at a time."""
_CELLS = 4_000_000
"""Scores that are held at a time."""
SAVE_EVERY = 60.0
"""Seconds between saved states."""


class Best:
    """The ``depth`` best documents so far of each query, ties by document id; scores of 0 are no hits."""

    def __init__(self, queries: int, depth: int, ids: Sequence[str]) -> None:
        self._depth, self._ids = depth, ids
        self._rank = np.empty(len(ids) + 1, np.int64)  # of each document by its id; one more for "no document", row -1
        self._rank[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids))
        self._rank[-1] = len(ids)
        self.scores = np.zeros((queries, depth), np.float32)
        self.rows = np.full((queries, depth), -1, np.int64)

    def add(self, first: int, scores: npt.NDArray[np.float32], start: int) -> None:
        """Scores (queries from ``first`` on, documents from ``start`` on)."""
        width = scores.shape[1]
        columns = np.broadcast_to(np.arange(width), scores.shape)
        if width > self._depth:
            columns = np.argpartition(scores, width - self._depth, axis=1)[:, width - self._depth :]
            worst = np.take_along_axis(scores, columns, axis=1).min(axis=1)
            tied = (worst > 0) & ((scores >= worst[:, None]).sum(axis=1) > self._depth)
            for row in np.flatnonzero(tied):
                hits = np.flatnonzero(scores[row] >= worst[row])
                columns[row] = hits[np.lexsort((self._rank[start + hits], -scores[row, hits]))[: self._depth]]
        self.merge(first, np.take_along_axis(scores, columns, axis=1), columns + start)

    def merge(self, first: int, scores: npt.NDArray[np.float32], rows: npt.NDArray[np.int64]) -> None:
        """Documents ``rows`` with ``scores``, both (queries from ``first`` on, documents)."""
        here = slice(first, first + len(scores))
        all_scores = np.concatenate([self.scores[here], scores], axis=1)
        all_rows = np.concatenate([self.rows[here], np.where(scores > 0, rows, -1)], axis=1)
        order = np.lexsort((self._rank[all_rows], -all_scores), axis=1)[:, : self._depth]
        self.scores[here] = np.take_along_axis(all_scores, order, axis=1)
        self.rows[here] = np.take_along_axis(all_rows, order, axis=1)

    def run(self, queries: Sequence[Query]) -> dict[str, list[tuple[str, float]]]:
        """The documents of ``queries``."""
        return {
            query.id: [(self._ids[row], score) for row, score in zip(rows, scores, strict=True) if row >= 0]
            for query, rows, scores in zip(queries, self.rows.tolist(), self.scores.tolist(), strict=True)
        }


def best_documents(
    encode: EncodeSide,
    queries: Sequence[Query],
    pool: TextStore,
    depth: int,
    *,
    process: int = 0,
    processes: int = 1,
    gather: Gather = lambda array: array,
    state: Path | None = None,
    key: str = "",
    block: int = BLOCK,
) -> dict[str, list[tuple[str, float]]]:
    """The ``depth`` best documents of ``pool`` for each query by dot product, the same in every process.

    Each process encodes and searches every ``processes``-th block of documents; ``gather`` brings the results together.
    Memory: one block of vectors, and 12 bytes for each of ``depth`` hits of each query. ``state`` keeps the hits of
    this process once a minute: a search with the same ``key`` that was killed goes on there.
    """
    best = Best(len(queries), depth, pool.ids)
    vectors = encode("query", [query.text for query in queries])
    blocks, saved = range(process, number_of_blocks(pool, block), processes), time.monotonic()
    done = restore_hits(state, key, best, blocks)
    todo = [number for number in blocks if number not in done]
    for number in tqdm(todo, "mining", unit=" blocks", leave=False, disable=process > 0 or None):
        search_block(best, encode, vectors, pool, number, block)
        done.add(number)
        if state is not None and time.monotonic() - saved > SAVE_EVERY:
            save_hits(state, key, best, done)
            saved = time.monotonic()
    scores, rows = gather(best.scores[None]), gather(best.rows[None])
    for other in range(processes):
        if other != process:
            best.merge(0, scores[other], rows[other])
    if state is not None:
        state.unlink(missing_ok=True)
    return best.run(queries)


def number_of_blocks(pool: TextStore, block: int = BLOCK) -> int:
    """Blocks of ``block`` documents, the last of which may have fewer."""
    return -(-len(pool) // block)


def search_block(best: Best, encode: EncodeSide, queries: Vectors, pool: TextStore, number: int, block: int) -> None:
    """Encode the documents of block ``number``, search them with the vectors of all queries, and add the hits."""
    start, at_once = number * block, max(1, _CELLS // block)
    documents = encode("document", [pool[id] for id in pool.ids[start : start + block]]).T.tocsr()
    for first in range(0, queries.shape[0], at_once):
        best.add(first, (queries[first : first + at_once] @ documents).toarray(), start)


def save_hits(state: Path, key: str, best: Best, done: Set[int]) -> None:
    """Write the hits of the blocks ``done``, whole or not at all."""
    with new_file(state) as path, path.open("wb") as file:
        np.savez(file, key=np.array(key), done=np.array(sorted(done)), scores=best.scores, rows=best.rows)


def restore_hits(state: Path | None, key: str, best: Best, blocks: range) -> set[int]:
    """Put saved hits back and return their blocks; nothing if they are of another search, or of other ``blocks``."""
    if state is None or not state.is_file():
        return set()
    try:
        with np.load(state, allow_pickle=False) as saved:
            done = set(saved["done"].tolist())
            if str(saved["key"]) != key or saved["scores"].shape != best.scores.shape or not done <= set(blocks):
                return set()
            best.scores[:], best.rows[:] = saved["scores"], saved["rows"]
            return done
    except (OSError, ValueError, KeyError) as error:
        raise LearnedSparseError(f"{state}: not readable ({error}); remove it, and the search starts again") from error
