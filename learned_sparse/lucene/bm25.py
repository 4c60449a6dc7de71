"""BM25 on Lucene's classes: what Anserini's searcher finds, without reading stored documents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from learned_sparse.lucene.loops import SearchLoop, text_query
from learned_sparse.lucene.open_index import DEFAULT_CLAUSES, Hits, OpenIndex, allow_clauses, share_out

BM25_K1, BM25_B = 0.9, 0.4
"""Anserini's defaults."""


class Bm25Searcher:
    """An open index; to be closed in the end, or used in a ``with``.

    Hits and scores are those of Pyserini's ``LuceneSearcher``, tied ones lowered by steps of 0.000001 like there.
    """

    def __init__(self, index: Path, k1: float = BM25_K1, b: float = BM25_B, *, pretokenized: bool = False) -> None:
        """``pretokenized``: queries and documents are terms between spaces, else text for the English analyzer."""
        self._open = OpenIndex(index, lambda: _similarity(k1, b))
        self._search = SearchLoop(self._open.searcher, text_query(_analyzer(pretokenized)), rescored=True)

    def search(self, text: str, k: int = 1000) -> Hits:
        """The ``k`` best documents that have a word of ``text``."""
        if longest_analyzed(text) > DEFAULT_CLAUSES:
            allow_clauses(longest_analyzed(text))
        return as_anserini_rounds(self._open.ask(self._search, text, k=k))

    def search_batch(self, queries: Mapping[str, str], k: int = 1000, threads: int = 1) -> dict[str, Hits]:
        """``search`` for each of ``queries`` (by id), in their order; the threads share the queries out."""
        return share_out(lambda text: self.search(text, k), queries, threads)

    def close(self) -> None:
        """Close the files of the index."""
        self._open.close()

    def __enter__(self) -> Bm25Searcher:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def as_anserini_rounds(hits: Hits) -> Hits:
    """Scores rounded to four decimals, and each that is not below the one before by more, 0.000001 below that.

    Anserini's ``ScoreTiesAdjusterReranker``, in its 32-bit floats.

    >>> as_anserini_rounds([("a", 2.00001), ("b", 2.0), ("c", 1.5)])
    [('a', 2.0), ('b', 1.9999990463256836), ('c', 1.5)]
    """
    rounded = np.floor(np.array([score for _, score in hits], np.float64) * 10_000 + 0.5) / 10_000
    scores: list[np.float32] = []
    before, ties = np.float32(math.inf), 0
    for score in rounded.astype(np.float32):
        ties = 0 if before - score > _NEAR else ties + 1
        before = score - _STEP * np.float32(ties) if ties else score
        scores.append(before)
    return [(name, float(score)) for (name, _), score in zip(hits, scores, strict=True)]


_NEAR, _STEP = np.float32(1e-4), np.float32(1e-6)


def longest_analyzed(text: str) -> int:
    """The most words that an analyzer can find in ``text``: each has a character, and one between it and the next."""
    return (len(text) + 1) // 2


def _similarity(k1: float, b: float) -> Any:
    from jnius import autoclass

    return autoclass("org.apache.lucene.search.similarities.BM25Similarity")(k1, b)


def _analyzer(pretokenized: bool) -> Any:
    from jnius import autoclass

    if pretokenized:
        return autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    return autoclass("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
