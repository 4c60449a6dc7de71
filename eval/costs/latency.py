"""How long one query takes: its encoding, and its search as our commands search, one at a time on one thread, warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from learned_sparse.core import Query
from learned_sparse.search import MaxP, Rows, open_searcher, queries_by_id

if TYPE_CHECKING:
    from learned_sparse.index import IndexNote
    from learned_sparse.search import ExactSearcher

T = TypeVar("T")
WARM = 200
"""Questions, at least, that warm caches and Java's compiler before any is timed."""
ROUNDS = 3


@dataclass(frozen=True)
class Milliseconds:
    """Of a set of queries, one by one."""

    median: float
    p99: float
    """What 99 % of the queries do not exceed (interpolated, as numpy does it)."""


def encode_milliseconds(index: Path, queries: Sequence[Query]) -> float:
    """Median time to encode one query with the encoder that an index asks for."""
    from learned_sparse.search import QueryEncoder

    encoder = QueryEncoder.from_index(index)
    return milliseconds(lambda query: encoder.encode(query.text), queries).median


def search_milliseconds(
    index: Path, queries: Sequence[Query], k: int, settings: Mapping[str, Any] | None = None
) -> float:
    """Median time of the search for the ``k`` best documents of one query, its encoding left out.

    ``settings`` are changes to those of the index, as far as only queries depend on them.
    """
    from learned_sparse.index import IndexNote

    note, rows = IndexNote.load(index), None
    if note.scoring != "bm25-text":
        from learned_sparse.search import QueryEncoder

        rows = QueryEncoder.from_note(note, index, settings=settings).encode_batch([query.text for query in queries])
    return time_searches(index, note, queries, rows, k).median


def time_searches(
    place: Path, note: IndexNote, queries: Sequence[Query], encoded: Rows, k: int, exact: ExactSearcher | None = None
) -> Milliseconds:
    """Times of ``learned_sparse.search``'s own searchers for the ``k`` best documents of each query.

    ``encoded`` are the impacts of the queries, in order; None for plain text. ``exact`` searches instead of the index
    in ``place``. An index of segments is searched once, to the depth of the first search for ``k`` documents.
    """
    asked = queries_by_id(queries, encoded)
    if maxp := MaxP.from_note(note):
        k = maxp.first_depth(k)
    with open_searcher(place, note.scoring, exact=exact) as search:
        return milliseconds(lambda name: search({name: asked[name]}, k, 1), list(asked))


def milliseconds(ask: Callable[[T], object], asked: Sequence[T]) -> Milliseconds:
    """Each question's time is the median of three rounds, after those that warm up."""
    for number in range(max(WARM, len(asked))):
        ask(asked[number % len(asked)])
    rounds = [[_seconds(ask, question) for question in asked] for _ in range(ROUNDS)]
    times = [1000 * median(of_question) for of_question in zip(*rounds, strict=True)]
    return Milliseconds(median(times), float(np.quantile(times, 0.99)))


def _seconds(ask: Callable[[T], object], question: T) -> float:
    started = time.perf_counter()
    ask(question)
    return time.perf_counter() - started
