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

    Equal scores are ordered by document id; scores of 0 are no hits. Each process encodes and searches every
    ``processes``-th block of ``block`` documents; ``gather`` brings the results together. Memory: one block of vectors,
    and 8 bytes for each of ``depth`` hits of each query.
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
