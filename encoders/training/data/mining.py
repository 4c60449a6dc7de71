"""The best documents of each query by exact dot products: block by block, on all processes, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from encoders.training.data.texts import TextStore
from learned_sparse.core.encoder import Side
from learned_sparse.core.records import Query

Run = Mapping[str, Sequence[tuple[str, float]]]
"""Query id to ``(document id, score)``, best first."""
Vectors = Any  # scipy.sparse.csr_array (texts, dimensions); scipy has no types
EncodeSide = Callable[[Side, Sequence[str]], Vectors]
Gather = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""An array ``(1, ...)`` of this process to those of all processes, ``(processes, ...)``."""

_CELLS = 4_000_000
"""Scores that are held at a time."""


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
    block: int = 8192,
) -> dict[str, list[tuple[str, float]]]:
    """The ``depth`` best documents of ``pool`` for each query by dot product, the same in every process.

    Each process encodes and searches every ``processes``-th block of ``block`` documents; ``gather`` brings the results
    together. Memory: one block of vectors, and 12 bytes for each of ``depth`` hits of each query.
    """
    best = Best(len(queries), depth, pool.ids)
    vectors, at_once = encode("query", [query.text for query in queries]), max(1, _CELLS // block)
    starts = range(process * block, len(pool), processes * block)
    for start in tqdm(starts, "mining", unit=" blocks", leave=False, disable=process > 0 or None):
        documents = encode("document", [pool[id] for id in pool.ids[start : start + block]]).T.tocsr()
        for first in range(0, len(queries), at_once):
            best.add(first, (vectors[first : first + at_once] @ documents).toarray(), start)
    scores, rows = gather(best.scores[None]), gather(best.rows[None])
    for other in range(processes):
        if other != process:
            best.merge(0, scores[other], rows[other])
    return best.run(queries)
