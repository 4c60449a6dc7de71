"""Seconds until a search has its first hit: a searcher of many distinct terms, and whole commands from nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from learned_sparse.core.records import Document
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.index.vectors import plain_files
from tests.benchmarks import harness
from tests.benchmarks.searching import write_vectors

TERMS_PER_DOCUMENT = 100
"""Number of terms that occur in only one document."""
QUERY = {"all": 1, "t7": 3}
STOCK, OURS = "pyserini", "learned_sparse"
OPENED, COMMAND = "a searcher is made and has its first hits", "a command from its start to its end"


def run(toy: bool) -> dict[str, Any]:
    """Searchers of an index of many distinct terms, each in a new process; commands on indexes of a few documents."""
    documents, rounds, warm = (20, 1, 0) if toy else (5_000, 5, 1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        build_index(plain_files([write_vectors(folder / "vectors", vectors(documents))]), folder / "index")
        contenders: dict[str, dict[str, Callable[[], float]]] = {
            OPENED: {name: partial(_opened, name, folder / "index") for name in (STOCK, OURS)},
            COMMAND: _commands(folder),
        }
        rows = [row for what, calls in contenders.items() for row in _rows(what, calls, rounds, warm)]
    return {
        "sizes": {"documents": documents, "distinct_terms": documents * TERMS_PER_DOCUMENT + 1, "rounds": rounds},
        "rows": rows,
        "ratios": {what: _ratios([row for row in rows if row["what"] == what]) for what in (OPENED, COMMAND)},
    }


def vectors(documents: int) -> Iterator[dict[str, int]]:
    """Documents with 100 distinct terms each and one term that all documents share."""
    for number in range(documents):
        terms = range(number * TERMS_PER_DOCUMENT, (number + 1) * TERMS_PER_DOCUMENT)
        yield {"all": 1, **{f"t{term}": 1 + term % 7 for term in terms}}


def first_hits(contender: str, index: str) -> dict[str, Any]:
    """Make a searcher and search once, after this process has started Java and imported the modules."""
    from learned_sparse.lucene.jvm import start_jvm

    start_jvm()
    if contender == STOCK:
        from pyserini.search.lucene import LuceneImpactSearcher

        class Encoded:
            def encode(self, _: str, **__: Any) -> dict[str, int]:
                return QUERY

        start = time.perf_counter()
        hits = [hit.docid for hit in LuceneImpactSearcher(index, Encoded(), -1).search("x", 10)]
    else:
        from learned_sparse.lucene.searchers import ImpactSearcher

        start = time.perf_counter()
        hits = [name for name, _ in ImpactSearcher(Path(index)).search(QUERY, 10)]
    return {"seconds": time.perf_counter() - start, "hits": hits}


def _opened(contender: str, index: Path) -> float:
    result = harness.child("tests.benchmarks.startup:first_hits", contender=contender, index=str(index))
    if result["hits"][0] != "d0000000":
        raise RuntimeError(f"{contender} found {result['hits']}")
    return float(result["seconds"])


def _commands(folder: Path) -> dict[str, Callable[[], float]]:
    """BM25 commands that search an index of a few documents."""
    build_bm25_index([Document("d0", "read a file"), Document("d1", "wing")], folder / "text")
    (folder / "topics.tsv").write_text("1\tread a file\n", encoding="utf-8")
    on = ["--topics", folder / "topics.tsv", "--output", folder / "run.txt", "--index", folder / "text"]
    return {
        "pyserini search.lucene": partial(_command, "learned_sparse.pyserini", "search.lucene", "--bm25", *on),
        "learned_sparse.search": partial(_command, "learned_sparse.search", "--bm25", *on),
    }


def _command(*words: object) -> float:
    """Seconds of ``python -m ...``, which must find something."""
    run = Path(str(words[-1])).with_name("run.txt")
    run.unlink(missing_ok=True)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", *map(str, words)], cwd=harness.ROOT, capture_output=True, check=True)
    elapsed = time.perf_counter() - start
    if not run.read_text(encoding="utf-8"):
        raise RuntimeError(f"{words}: no hits")
    return elapsed


def _rows(what: str, contenders: Mapping[str, Callable[[], float]], rounds: int, warm: int) -> list[dict[str, Any]]:
    """Seconds of each contender in each round, as it has measured them, without the first ``warm`` rounds."""
    measured: dict[str, list[float]] = {name: [] for name in contenders}

    def call(name: str) -> None:
        measured[name].append(contenders[name]())

    harness.interleave({name: partial(call, name) for name in contenders}, rounds, warm)
    return [
        {"what": what, "contender": name, "seconds": [round(value, 3) for value in values[warm:]]}
        for name, values in measured.items()
    ]


def _ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Ratios to Pyserini, the first row."""
    stock, *ours = rows
    return {
        f"{stock['contender']} / {row['contender']}": round(harness.median_ratio(stock["seconds"], row["seconds"]), 2)
        for row in ours
    }
