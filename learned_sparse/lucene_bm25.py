"""BM25 by Anserini's own searcher, asked without Pyserini in between: importing that takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from learned_sparse.errors import LearnedSparseError
from learned_sparse.java import start_jvm
from learned_sparse.lucene_impacts import Hits, allow_clauses

BM25_K1, BM25_B = 0.9, 0.4
"""Anserini's defaults."""


class Bm25Searcher:
    """An open index; to be closed in the end, or used in a ``with``.

    It is what Pyserini's ``LuceneSearcher`` wraps: the same hits and scores, tied ones lowered by steps of 0.000001.
    """

    def __init__(self, index: Path, k1: float = BM25_K1, b: float = BM25_B, *, pretokenized: bool = False) -> None:
        """``pretokenized``: queries and documents are terms between spaces, else text for the English analyzer."""
        start_jvm()
        from jnius import JavaException, autoclass

        self._list = autoclass("java.util.ArrayList")
        try:
            self._searcher = autoclass("io.anserini.search.SimpleSearcher")(str(index))
        except JavaException as error:
            raise LearnedSparseError(
                f"{index}: not a Lucene index ({error.innermessage}); make one with learned_sparse.index"
            ) from None
        self._searcher.set_bm25(k1, b)
        if pretokenized:
            self._searcher.set_analyzer(autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")())

    def search_batch(self, queries: Mapping[str, str], k: int = 1000, threads: int = 1) -> dict[str, Hits]:
        """The ``k`` best documents of each of ``queries`` (text by id), in their order."""
        allow_clauses(max(map(longest_analyzed, queries.values()), default=0))
        texts, names = self._list(), self._list()
        for name, text in queries.items():
            texts.add(text)
            names.add(name)
        found = self._searcher.batch_search(texts, names, k, threads)
        return {name: [(hit.docid, float(hit.score)) for hit in found.get(name)] for name in queries}

    def close(self) -> None:
        """Close the files of the index."""
        self._searcher.close()

    def __enter__(self) -> Bm25Searcher:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def longest_analyzed(text: str) -> int:
    """The most words that an analyzer can find in ``text``: each has a character, and one between it and the next."""
    return (len(text) + 1) // 2
