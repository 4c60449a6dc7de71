"""Searches of an impact index by Lucene itself: what Anserini's searcher finds, without reading stored documents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from learned_sparse.core import LearnedSparseError
from learned_sparse.lucene.loops import SearchLoop, impact_query
from learned_sparse.lucene.open_index import DEFAULT_CLAUSES, MOST, Hits, OpenIndex, allow_clauses, share_out

Query = Mapping[str, int]
"""``{term: impact}``"""


class ImpactSearcher:
    """An open index; to be closed in the end, or used in a ``with``.

    Hits, their order and the cut at ``k`` are those of Pyserini's ``LuceneImpactSearcher`` with ``min_idf=-1``, and so
    are the scores, but that tied ones are not lowered by steps of 0.000001: they are the dot products. They are 32-bit
    floats, in which integers are exact up to 2**24.
    """

    def __init__(self, index: Path) -> None:
        self._open = OpenIndex(index, _similarity)
        self._search = SearchLoop(self._open.searcher, impact_query(), rescored=False)

    def search(self, query: Query, k: int = 1000) -> Hits:
        """The ``k`` best documents that have a term of ``query``."""
        _check(query)
        if not query:
            return []
        if len(query) > DEFAULT_CLAUSES:
            allow_clauses(len(query))
        return self._open.ask(self._search, list(query), list(map(float, query.values())), k=k)

    def search_batch(self, queries: Mapping[str, Query], k: int = 1000, threads: int = 1) -> dict[str, Hits]:
        """``search`` for each of ``queries`` (by id), in their order; the threads share the queries out."""
        return share_out(lambda query: self.search(query, k), queries, threads)

    def close(self) -> None:
        """Close the files of the index."""
        self._open.close()

    def __enter__(self) -> ImpactSearcher:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def _similarity() -> Any:
    from jnius import autoclass

    return autoclass("io.anserini.search.similarity.ImpactSimilarity")()


def _check(query: Query) -> None:
    for term, impact in query.items():
        if int(impact) != impact or not 0 <= impact <= MOST:
            raise LearnedSparseError(
                f"query term {term!r} has the impact {impact!r}, not a whole number from 0 to {MOST:,}"
            )
