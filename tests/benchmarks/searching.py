"""Searches in an impact index beside Pyserini's, on the same index: milliseconds a query, and seconds to the first."""

from __future__ import annotations

import importlib
import itertools
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse.index.build import build_index
from learned_sparse.lucene.jvm import start_jvm
from learned_sparse.lucene.searchers import ImpactSearcher
from tests.benchmarks.run import child, interleave
from tests.learned_sparse.encoded_folder import write_folder
from tests.learned_sparse.lucene.stock_searcher import impact_searcher

SEED = 0
VOCABULARY = 30_000
LENGTH, HITS = 20, 1_000
"""Terms and hits of a query."""
STOCK, OURS = "pyserini batch_search, 2 threads", "learned_sparse, 2 threads"
OPENED, OPENERS = "a searcher is made and has its first hits", ("pyserini", "learned_sparse")
TERMS_PER_DOCUMENT = 100
"""Number of terms that occur in only one document of the index that is opened."""
Vector = dict[str, int]


def run(toy: bool) -> dict[str, Any]:
    """Queries in a batch; then each searcher in a new process, in turn."""
    documents, terms, queries, rounds = (500, 30, 5, 1) if toy else (50_000, 120, 50, 5)
    opened = 20 if toy else 5_000
    rows: list[dict[str, Any]] = []
    seconds: dict[str, list[float]] = {name: [] for name in OPENERS}
    with tempfile.TemporaryDirectory() as temporary:
        index = indexed(Path(temporary) / "vectors", vectors(documents, terms, SEED))
        batch = vectors(queries, LENGTH, SEED + LENGTH)
        for name, elapsed in _measure(index, batch, rounds).items():
            ms = round(1_000 * statistics.median(elapsed) / queries, 3)
            rows.append({"contender": name, "terms": LENGTH, "hits": HITS, "seconds": elapsed, "ms_per_query": ms})
        index = indexed(Path(temporary) / "many terms", many_terms(opened))
        for turn, (name, values) in itertools.product(range(rounds + 1), seconds.items()):
            elapsed = child(first_hits, contender=name, index=index)["seconds"]
            values += [round(elapsed, 3)] if turn else []  # the first round warms the disk
    rows += [{"what": OPENED, "contender": name, "seconds": values} for name, values in seconds.items()]
    sizes = {"documents": documents, "terms_per_document": terms, "queries": queries, "rounds": rounds, "seed": SEED}
    return {"sizes": {**sizes, "vocabulary": VOCABULARY, "opened_terms": opened * TERMS_PER_DOCUMENT + 1}, "rows": rows}


def vectors(number: int, terms: int, seed: int, largest: int | None = None) -> dict[str, Vector]:
    """Vectors of at most ``terms`` Zipf-distributed terms with impacts from 1 to ``largest`` or, most small, to 255."""
    rng = np.random.default_rng(seed)
    shares = np.cumsum(1 / np.arange(10, VOCABULARY + 10))
    made = {}
    for document in range(number):
        chosen = np.searchsorted(shares, rng.random(terms) * shares[-1])
        drawn = rng.beta(1, 3, size=terms) * largest if largest else rng.lognormal(2.5, 0.8, size=terms)
        impacts = np.clip(drawn, 1, largest or 255).astype(int)
        terms_of = zip(chosen.tolist(), impacts.tolist(), strict=True)
        made[f"d{document:07d}"] = {f"t{term}": impact for term, impact in terms_of}
    return made


def many_terms(documents: int) -> dict[str, Vector]:
    """Documents with distinct terms and one term that all documents share."""
    terms = (range(number * TERMS_PER_DOCUMENT, (number + 1) * TERMS_PER_DOCUMENT) for number in range(documents))
    return {f"d{of.start:07d}": {"all": 1, **{f"t{term}": 1 + term % 7 for term in of}} for of in terms}


def indexed(folder: Path, vectors: Mapping[str, Vector]) -> Path:
    """An index of ``vectors``, which are written to ``folder``."""
    index = folder.with_name(f"{folder.name}, indexed")
    build_index(write_folder(folder, vectors), index)
    return index


def _measure(index: Path, queries: Mapping[str, Vector], rounds: int) -> dict[str, list[float]]:
    """Seconds for all queries, whose hits must be equal. Pyserini's hits stay in Java, ours are in Python.

    Scores of ties may differ by the steps of 0.000001 between Pyserini's.
    """
    names = list(queries)
    stock = impact_searcher(index, queries)
    with ImpactSearcher(index) as ours:
        contenders: dict[str, Callable[[], Any]] = {
            "pyserini search, one by one": lambda: [stock.search(name, HITS) for name in names],
            STOCK: lambda: stock.batch_search(names, names, HITS, 2),
            "learned_sparse, 1 thread": lambda: ours.search_batch(queries, HITS),
            OURS: lambda: ours.search_batch(queries, HITS, 2),
        }
        seconds = interleave(contenders, rounds, warm=2)
        expected = contenders[STOCK]()
        for name, found in contenders[OURS]().items():
            same = [hit.docid for hit in expected[name]] == [document for document, _ in found]
            scores = [hit.score for hit in expected[name]]
            if not (same and np.allclose([score for _, score in found], scores, 0, 2e-6 * HITS)):
                raise RuntimeError(f"{name}: the searchers give other hits")
    stock.close()
    return seconds


def first_hits(contender: str, index: Path) -> dict[str, Any]:
    """Make a searcher and search once, after this process has started Java and imported the modules."""
    start_jvm()
    importlib.import_module("pyserini.search.lucene")
    query, start = {"all": 1, "t7": 3}, time.perf_counter()
    if contender == "pyserini":
        hits = [hit.docid for hit in impact_searcher(index, {"x": query}).search("x", 10)]
    else:
        hits = [name for name, _ in ImpactSearcher(index).search(query, 10)]
    if hits[0] != "d0000000":
        raise RuntimeError(f"{contender} found {hits}")
    return {"seconds": time.perf_counter() - start}
