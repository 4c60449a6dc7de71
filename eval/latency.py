"""How long one query takes: its encoding, and its search in Lucene, one at a time on one thread, warm."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from learned_sparse.records import Query

T = TypeVar("T")


def encode_milliseconds(index: Path, queries: Sequence[Query]) -> float:
    """Median time to encode one query with the encoder that an index asks for."""
    from learned_sparse.query_encoder import QueryImpacts

    impacts = QueryImpacts.from_index(index)
    return _median_milliseconds(lambda query: impacts([query.text]), queries)


def search_milliseconds(
    index: Path, queries: Sequence[Query], k: int, settings: Mapping[str, Any] | None = None
) -> float:
    """Median time of stock Pyserini's search for the ``k`` best documents of one query, its encoding left out.

    ``settings`` are changes to those of the index, as far as only queries depend on them.
    """
    from learned_sparse import lucene
    from learned_sparse.index_folder import IndexNote

    if IndexNote.load(index).scoring == "bm25-text":
        searcher, keys = lucene.bm25_searcher(index), [query.text for query in queries]
    else:
        from learned_sparse.query_encoder import QueryImpacts

        rows = QueryImpacts.from_index(index, settings=settings)([query.text for query in queries])
        prepared = {query.id: row for query, row in zip(queries, rows, strict=True)}
        searcher, keys = lucene.impact_searcher(index, prepared), list(prepared)
    try:
        return _median_milliseconds(lambda key: searcher.search(key, k), keys)
    finally:
        searcher.close()


def _median_milliseconds(ask: Callable[[T], object], questions: Sequence[T]) -> float:
    """Of a second pass: the first one warms caches and Java's compiler."""
    for question in questions:
        ask(question)
    times = []
    for question in questions:
        started = time.perf_counter()
        ask(question)
        times.append(time.perf_counter() - started)
    return 1000 * median(times)
