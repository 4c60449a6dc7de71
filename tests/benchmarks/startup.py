"""Seconds until a searcher of an index with many distinct terms has its first hits, beside Pyserini's."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from learned_sparse.index.build import build_index, plain_files
from tests.benchmarks.run import child, median_ratio
from tests.benchmarks.searching import write_vectors
from tests.learned_sparse.lucene.stock_searcher import impact_searcher

TERMS_PER_DOCUMENT = 100
"""Number of terms that occur in only one document."""
QUERY = {"all": 1, "t7": 3}
STOCK, OURS = "pyserini", "learned_sparse"
OPENED = "a searcher is made and has its first hits"


def run(toy: bool) -> dict[str, Any]:
    """Each searcher in a new process, in turn."""
    documents, rounds = (20, 1) if toy else (5_000, 5)
    seconds: dict[str, list[float]] = {STOCK: [], OURS: []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        build_index(plain_files([write_vectors(folder / "vectors", vectors(documents))]), folder / "index")
        for number in range(rounds + 1):
            for contender, values in seconds.items():
                arguments = {"contender": contender, "index": str(folder / "index")}
                result = child("tests.benchmarks.startup:first_hits", **arguments)
                if result["hits"][0] != "d0000000":
                    raise RuntimeError(f"{contender} found {result['hits']}")
                values += [round(result["seconds"], 3)] if number else []  # the first round warms the disk
    return {
        "sizes": {"documents": documents, "distinct_terms": documents * TERMS_PER_DOCUMENT + 1, "rounds": rounds},
        "rows": [{"what": OPENED, "contender": name, "seconds": values} for name, values in seconds.items()],
        "ratios": {f"{STOCK} / {OURS}": round(median_ratio(seconds[STOCK], seconds[OURS]), 2)},
    }


def vectors(documents: int) -> Iterator[dict[str, int]]:
    """Documents with 100 distinct terms each and one term that all documents share."""
    for number in range(documents):
        terms = range(number * TERMS_PER_DOCUMENT, (number + 1) * TERMS_PER_DOCUMENT)
        yield {"all": 1, **{f"t{term}": 1 + term % 7 for term in terms}}


def first_hits(contender: str, index: str) -> dict[str, Any]:
    """Make a searcher and search once, after this process has started Java and imported the modules."""
    from learned_sparse.lucene.jvm import start_jvm
    from learned_sparse.lucene.searchers import ImpactSearcher

    start_jvm()
    if contender == STOCK:
        importlib.import_module("pyserini.search.lucene")
    start = time.perf_counter()
    if contender == STOCK:
        hits = [hit.docid for hit in impact_searcher(Path(index), {"x": QUERY}).search("x", 10)]
    else:
        hits = [name for name, _ in ImpactSearcher(Path(index)).search(QUERY, 10)]
    return {"seconds": time.perf_counter() - start, "hits": hits}
