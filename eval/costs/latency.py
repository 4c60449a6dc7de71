"""Latency of one query: its encoding, and its search by this package's searchers, warm and on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, TypeVar

import numpy as np

from learned_sparse.core.errors import progress_bar
from learned_sparse.core.records import Query
from learned_sparse.index.note import IndexNote
from learned_sparse.search.engines import VectorSearcher
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.query_encoder import QueryEncoder
from learned_sparse.search.searching import MaxP, open_searcher

T = TypeVar("T")
WARM_UP = 200
"""Minimum number of untimed queries, for caches and Java's compiler."""
ROUNDS = 3
_ENCODER_WARM_UP = 10
"""Untimed queries of an encoder, which has no compiler and reads no files."""


@dataclass(frozen=True)
class Milliseconds:
    """Times of a set of queries, one query at a time."""

    median: float
    mean: float
    """What papers report."""
    p99: float
    """99th percentile (interpolated as NumPy does)."""


def encode_milliseconds(
    index: Path, queries: Sequence[Query], note: IndexNote | None = None, settings: Mapping[str, Any] | None = None
) -> Milliseconds:
    """Times to encode one query with the encoder of an index, or of vectors with this ``note``."""
    encoder = QueryEncoder.from_index(index, note=note, settings=settings)
    return milliseconds(lambda query: encoder.encode(query.text), queries, warm_up=_ENCODER_WARM_UP)


def time_searches(
    path: Path,
    note: IndexNote,
    queries: Mapping[str, Any],
    k: int,
    vectors: VectorSearcher | None = None,
    bm25: Mapping[str, float] | None = None,
) -> Milliseconds:
    """Time the search for the ``k`` best documents of each query.

    ``queries``: query id → impacts, or text for an index of plain text. ``vectors``: a searcher to use instead of the
    index at ``path``. ``bm25``: ``k1`` and ``b``. An index of segments is searched to the depth of the first search for
    ``k`` documents.
    """
    if maxp := MaxP.from_note(note):
        k = maxp.first_depth(k)
    with open_searcher(path, note.scoring, vectors=vectors, bm25=bm25) as search:
        return milliseconds(lambda query: search({query: queries[query]}, k, 1), list(queries))


def recall(searcher: VectorSearcher, exact: ExactSearcher, queries: Mapping[str, Mapping[str, int]], k: int) -> float:
    """Share of the exact ``k`` best documents of all queries that ``searcher`` finds; 1.0 if no document has a score.

    A document counts if its score is at least that of the exact k-th document, so that ties count alike.
    """
    hits = total = 0
    for name, found in searcher.search_batch(queries, k).items():
        best = exact.search(queries[name], k)
        hits += sum(score >= best[-1][1] for _, score in found) if best else 0
        total += len(best)
    return hits / total if total else 1.0


def milliseconds(function: Callable[[T], object], arguments: Sequence[T], warm_up: int | None = None) -> Milliseconds:
    """Time ``function`` for each argument (the median of ``ROUNDS`` calls after the warm-up).

    ``warm_up``: untimed calls; None: at least ``WARM_UP``, and every argument once.
    """
    warming = max(WARM_UP, len(arguments)) if warm_up is None else warm_up
    with progress_bar(None, "timing", "queries", warming + ROUNDS * len(arguments)) as progress:
        for number in range(warming):
            function(arguments[number % len(arguments)])
        progress.update(warming)
        rounds = []
        for _ in range(ROUNDS):
            rounds.append([_seconds(function, argument) for argument in arguments])
            progress.update(len(arguments))  # between rounds, so that it costs no measured time
    times = [1000 * median(of_argument) for of_argument in zip(*rounds, strict=True)]
    return Milliseconds(median(times), mean(times), float(np.quantile(times, 0.99)))


def _seconds(function: Callable[[T], object], argument: T) -> float:
    started = time.perf_counter()
    function(argument)
    return time.perf_counter() - started
