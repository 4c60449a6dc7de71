"""An index that Lucene has open, asked by one thread or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from learned_sparse.core import LearnedSparseError
from learned_sparse.lucene.java import start_jvm
from learned_sparse.lucene.loops import SearchLoop

Hits = list[tuple[str, float]]
"""``(document id, score)``, best first, ties by document id."""
Question = TypeVar("Question")
MOST = 2**31 - 1
DEFAULT_CLAUSES = 1024
"""That Lucene allows a query, unless told otherwise."""


class OpenIndex:
    """Lucene's reader of an index and a searcher on it; to be closed in the end."""

    def __init__(self, index: Path, similarity: Callable[[], Any]) -> None:
        """``similarity`` makes what scores: Java runs when it is called."""
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
        self.searcher = autoclass("org.apache.lucene.search.IndexSearcher")(reader)
        self.searcher.setSimilarity(similarity())

    def ask(self, search: SearchLoop, *question: Any, k: int) -> Hits:
        """The hits of one question."""
        if not 1 <= k <= MOST:
            raise LearnedSparseError(f"{k} hits: give 1 to {MOST:,}")
        try:
            text = search(*question, k=k)
        except self._java_exception as error:
            raise LearnedSparseError(
                f"{self._index}: Lucene cannot search it: {error.classname}: {error.innermessage}"
            ) from error
        lines = text.split("\n") if text else []
        return list(zip(lines[1::2], map(float, lines[::2]), strict=True))

    def close(self) -> None:
        """Close the files of the index."""
        self._reader.close()


def share_out(search: Callable[[Question], Hits], questions: Mapping[str, Question], threads: int) -> dict[str, Hits]:
    """``search`` for each of ``questions`` (by id), in their order; Java runs without Python's lock."""
    if threads == 1:
        return {name: search(question) for name, question in questions.items()}
    found: dict[str, Hits] = {}
    pending = iter(questions.items())
    with ThreadPoolExecutor(threads) as pool:
        for worker in [pool.submit(_work, search, pending, found) for _ in range(threads)]:
            worker.result()
    return {name: found[name] for name in questions}


def _work(search: Callable[[Question], Hits], pending: Iterator[tuple[str, Question]], found: dict[str, Hits]) -> None:
    from jnius import detach

    try:
        for name, question in pending:
            found[name] = search(question)
    finally:
        detach()  # or Java keeps what it knows of this thread


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
