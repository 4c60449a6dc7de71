"""Pyserini's searchers: the only module that knows them."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from learned_sparse.core import LearnedSparseError, Query
from learned_sparse.lucene.bm25 import BM25_B, BM25_K1, Bm25Searcher, longest_analyzed
from learned_sparse.lucene.impacts import ImpactSearcher
from learned_sparse.lucene.java import start_jvm
from learned_sparse.lucene.open_index import Hits, allow_clauses

__all__ = [
    "BM25_B",
    "BM25_K1",
    "Bm25Searcher",
    "Hits",
    "ImpactSearcher",
    "allow_clauses",
    "analyze",
    "impact_searcher",
    "longest_analyzed",
    "make_encoders_known",
    "run_stock",
    "search_bm25",
    "search_impacts",
]


def search_impacts(
    index: Path, queries: Mapping[str, Mapping[str, int]], k: int = 1000, *, threads: int = 1
) -> dict[str, Hits]:
    """The ``k`` best documents of each query ``{term: impact}``, with the dot products as scores."""
    with ImpactSearcher(index) as searcher:
        return searcher.search_batch(queries, k, threads)


def search_bm25(
    index: Path, queries: Iterable[Query], k: int = 1000, k1: float = BM25_K1, b: float = BM25_B, *, threads: int = 1
) -> dict[str, Hits]:
    """The ``k`` best documents of each query by BM25, in an index of plain text (Anserini's English analyzer)."""
    with Bm25Searcher(index, k1, b) as searcher:
        return searcher.search_batch({query.id: query.text for query in queries}, k, threads)


def impact_searcher(index: Path, queries: Mapping[str, Mapping[str, int]]) -> Any:
    """Pyserini's searcher of impacts; it is asked for a query by its id in ``queries``, and to be closed in the end."""
    start_jvm()
    from pyserini.search.lucene import LuceneImpactSearcher

    allow_clauses(max(map(len, queries.values()), default=0))
    with _no_idf_table():
        return LuceneImpactSearcher(str(index), _Prepared(queries), -1)  # min_idf: keep terms that every document has


def analyze(texts: Iterable[str]) -> Iterator[list[str]]:
    """The words of each text as Anserini's English analyzer indexes them."""
    start_jvm()
    from pyserini.analysis import Analyzer, get_lucene_analyzer

    analyzer = Analyzer(get_lucene_analyzer())
    return (list(analyzer.analyze(text)) for text in texts)


def run_stock(module: str, arguments: Sequence[str]) -> int:
    """Run ``python -m pyserini.<module> <arguments>`` inside this process, on our JVM; its exit status.

    A message given to ``sys.exit`` goes to standard error, status 1, as Python itself does it. With a ``--min-idf``
    below zero, which keeps every term, no table of all terms of the index is made.
    """
    start_jvm()
    module = f"pyserini.{module.removeprefix('pyserini.')}"
    if not _runnable(module):
        raise LearnedSparseError(f"Pyserini has no command {module}; for instance search.lucene or index.lucene")
    before = sys.argv
    sys.argv = [module, *arguments]
    try:
        with _no_idf_table() if _keeps_every_term(arguments) else contextlib.nullcontext():
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        return _status(stop.code)
    finally:
        sys.argv = before
    return 0


def make_encoders_known(encoder_for: Callable[[str], Any | None]) -> None:
    """Let ``--encoder NAME`` of stock commands mean ``encoder_for(NAME)``; where that is None, its stock meaning."""
    start_jvm()
    from pyserini.search.lucene import LuceneImpactSearcher

    stock = LuceneImpactSearcher._init_query_encoder_from_str  # noqa: SLF001  (there is no other hook)

    def ours_or_stock(name: str | None) -> Any:
        ours = encoder_for(name) if name is not None else None
        return stock(name) if ours is None else ours

    LuceneImpactSearcher._init_query_encoder_from_str = staticmethod(ours_or_stock)  # noqa: SLF001


class _EveryTerm:
    """Stands for Pyserini's ``{term: idf}`` where no term is to be left out: all are there, and rare enough."""

    def __contains__(self, _: str) -> bool:
        return True

    def __getitem__(self, _: str) -> float:
        return float("inf")


@contextlib.contextmanager
def _no_idf_table() -> Iterator[None]:
    """Searchers made meanwhile hold no table of all terms: a second or more, and memory, for nothing."""
    from pyserini.search.lucene import LuceneImpactSearcher

    stock = LuceneImpactSearcher.__dict__["_compute_idf"]
    LuceneImpactSearcher._compute_idf = staticmethod(lambda _: _EveryTerm())  # noqa: SLF001  (there is no other hook)
    try:
        yield
    finally:
        LuceneImpactSearcher._compute_idf = stock  # noqa: SLF001


def _keeps_every_term(arguments: Sequence[str]) -> bool:
    """Whether ``--min-idf`` is given and below zero (an idf never is)."""
    joined = " ".join(arguments)
    given = re.findall(r"(?:^|\s)--min-idf[=\s]\s*(-?\d+)", joined)
    return bool(given) and int(given[-1]) < 0


class _Prepared:
    """A query encoder whose texts are the ids of queries that are encoded already."""

    def __init__(self, queries: Mapping[str, Mapping[str, int]]) -> None:
        self._queries = queries

    def encode(self, text: str, **_: Any) -> Mapping[str, int]:
        return self._queries[text]


def _runnable(module: str) -> bool:
    """Whether ``python -m module`` would find something; the packages above it are imported."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            return False
        raise
    is_package = spec is not None and spec.submodule_search_locations is not None
    return _runnable(f"{module}.__main__") if is_package else spec is not None


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return int(code or 0)
    print(code, file=sys.stderr)
    return 1
