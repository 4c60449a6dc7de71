"""Searches of an impact index by Lucene itself: what Anserini's searcher finds, without reading stored documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from learned_sparse.errors import LearnedSparseError
from learned_sparse.java import start_jvm
from learned_sparse.lucene_loops import SearchLoop

Hits = list[tuple[str, float]]
"""``(document id, score)``, best first, ties by document id."""
Query = Mapping[str, int]
"""``{term: impact}``"""
LARGEST_IMPACT = 2**31 - 1
DEFAULT_CLAUSES = 1024
"""That Lucene allows a query, unless told otherwise."""


class ImpactSearcher:
    """An open index; to be closed in the end, or used in a ``with``.

    Hits, their order and the cut at ``k`` are those of Pyserini's ``LuceneImpactSearcher`` with ``min_idf=-1``, and so
    are the scores, but that tied ones are not lowered by steps of 0.000001: they are the dot products. They are 32-bit
    floats, in which integers are exact up to 2**24.
    """

    def __init__(self, index: Path) -> None:
        start_jvm()
        from jnius import JavaException, autoclass, cast

        self._index, self._java_exception = index, JavaException
        folder = autoclass("java.nio.file.Paths").get(str(index.resolve()))
        try:
            directory = autoclass("org.apache.lucene.store.FSDirectory").open(folder)
            self._reader = autoclass("org.apache.lucene.index.DirectoryReader").open(directory)
        except JavaException as error:
            raise LearnedSparseError(
                f"{index}: not a Lucene index ({error.innermessage}); make one with learned_sparse.index"
            ) from None
        reader = cast("org.apache.lucene.index.IndexReader", self._reader)
        searcher = autoclass("org.apache.lucene.search.IndexSearcher")(reader)
        searcher.setSimilarity(autoclass("io.anserini.search.similarity.ImpactSimilarity")())
        self._search = SearchLoop(searcher)

    def search(self, query: Query, k: int = 1000) -> Hits:
        """The ``k`` best documents that have a term of ``query``."""
        _check(query, k)
        if not query:
            return []
        if len(query) > DEFAULT_CLAUSES:
            allow_clauses(len(query))
        try:
            text = self._search(list(query), list(map(float, query.values())), k)
        except self._java_exception as error:
            raise LearnedSparseError(
                f"{self._index}: Lucene cannot search it: {error.classname}: {error.innermessage}"
            ) from error
        lines = text.split("\n") if text else []
        return list(zip(lines[1::2], map(float, lines[::2]), strict=True))

    def search_batch(self, queries: Mapping[str, Query], k: int = 1000, threads: int = 1) -> dict[str, Hits]:
        """``search`` for each of ``queries`` (by id), in their order; the threads share the queries out."""
        if threads == 1:
            return {name: self.search(query, k) for name, query in queries.items()}
        found: dict[str, Hits] = {}
        pending = iter(queries.items())
        with ThreadPoolExecutor(threads) as pool:
            for worker in [pool.submit(self._work, pending, k, found) for _ in range(threads)]:
                worker.result()
        return {name: found[name] for name in queries}

    def _work(self, pending: Iterator[tuple[str, Query]], k: int, found: dict[str, Hits]) -> None:
        from jnius import detach

        try:
            for name, query in pending:
                found[name] = self.search(query, k)
        finally:
            detach()  # or Java keeps what it knows of this thread

    def close(self) -> None:
        """Close the files of the index."""
        self._reader.close()

    def __enter__(self) -> ImpactSearcher:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def allow_clauses(count: int) -> None:
    """Let a query have ``count`` terms: Lucene refuses more than 1,024 unless told otherwise."""
    start_jvm()
    from jnius import JavaException, autoclass

    searcher = autoclass("org.apache.lucene.search.IndexSearcher")
    most = int(searcher.getMaxClauseCount())
    if count <= most:
        return
    try:
        searcher.setMaxClauseCount(count)
    except (JavaException, OverflowError) as error:
        raise LearnedSparseError(
            f"a query has {count:,} terms and Lucene takes {most:,}, which cannot be raised ({error}); "
            "keep the heaviest terms only (top_k)"
        ) from error


def _check(query: Query, k: int) -> None:
    if not 1 <= k <= LARGEST_IMPACT:
        raise LearnedSparseError(f"{k} hits: give 1 to {LARGEST_IMPACT:,}")
    for term, impact in query.items():
        if int(impact) != impact or not 0 <= impact <= LARGEST_IMPACT:
            raise LearnedSparseError(
                f"query term {term!r} has the impact {impact!r}, not a whole number from 0 to {LARGEST_IMPACT:,}"
            )
