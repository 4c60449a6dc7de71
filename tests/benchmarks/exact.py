"""Exact search in memory beside SciPy, Lucene and Seismic: queries, growth, loading, memory."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from learned_sparse.core.records import SparseBatch
from learned_sparse.index import VectorFiles, build_index
from learned_sparse.search import ExactSearcher
from tests.benchmarks import harness
from tests.benchmarks.exact_peers import Found, Queries, Scipy, Search, Seismic, lucene, stock_pyserini
from tests.benchmarks.exact_tables import markdown
from tests.benchmarks.synthetic_vectors import document_ids, synthetic_impacts, synthetic_queries, write_vectors

__all__ = ["markdown", "run"]

FULL: dict[str, Any] = {
    "documents": 50_000, "growth": [10_000, 50_000, 200_000], "terms": 120, "query_terms": [5, 20, 50], "k": [10, 1000],
    "queries": 20, "rounds": 5, "loaded": 10_000,
}  # fmt: skip
TOY: dict[str, Any] = {
    "documents": 600, "growth": [300, 600], "terms": 20, "query_terms": [5, 20], "k": [10, 1000],
    "queries": 3, "rounds": 2, "loaded": 300,
}  # fmt: skip
THREADS = 2
OURS = "exact, batch"


def run(toy: bool) -> dict[str, Any]:
    """All of it; of ``rows``, ``growth`` and ``loading``, each has all its seconds."""
    sizes = TOY if toy else FULL
    whole = synthetic_impacts(max(sizes["growth"]), sizes["terms"])
    growth: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for count in sorted({*sizes["growth"], sizes["documents"], sizes["loaded"]}):
            impacts = whole.take(range(count))
            vectors = Path(folder) / str(count)
            files = write_vectors(vectors, impacts)
            if count == sizes["loaded"]:
                times = harness.child("tests.benchmarks.exact:loading", folder=str(vectors), rounds=sizes["rounds"])
            index = Path(folder) / f"{count}.index"
            build_index(VectorFiles(tuple(files), tuple(files.values()), len(impacts.values)), index, threads=THREADS)
            if count == sizes["documents"]:
                rows = _rows(impacts, index, sizes)
                memory = _memory(vectors)
            growth += _growth(impacts, index, sizes) if count in sizes["growth"] else []
    missing = [] if _has_seismic() else ["pyseismic-lsr"]
    counted = {"documents": sizes["documents"], "postings": int(whole.indptr[sizes["documents"]]), "seed": 0}
    return {
        "sizes": {**sizes, **counted}, "rows": rows, "growth": growth, "loading": times["rows"], "memory": memory,
        "ratios": _ratios(rows, times["rows"], sizes), "missing": missing,
    }  # fmt: skip


def _rows(impacts: SparseBatch, index: Path, sizes: dict[str, Any]) -> list[dict[str, Any]]:
    """Every contender for every length of queries and every ``k``, interleaved."""
    ids, rows = document_ids(len(impacts)), []
    exact, scipy = ExactSearcher(ids, impacts), Scipy(ids, impacts)
    seismic = Seismic(ids, impacts, THREADS) if _has_seismic() else None
    for terms in sizes["query_terms"]:
        queries = synthetic_queries(sizes["queries"], terms)
        contenders: dict[tuple[str, int], Search] = {
            (OURS, 1): partial(exact.search_batch, threads=1),
            (OURS, THREADS): partial(exact.search_batch, threads=THREADS),
            ("exact, one by one", 1): lambda some, k: {name: exact.search(query, k) for name, query in some.items()},
            ("SciPy, columns one by one", 1): scipy.columns,
            ("SciPy, documents @ query", 1): scipy.dense,
            ("SciPy, queries @ documents, sparse", 1): scipy.sparse,
        }
        for threads in (1, THREADS):
            contenders["Lucene, ids in bulk", threads] = lucene(index, threads)
            contenders["stock Pyserini, batch_search", threads] = stock_pyserini(index, queries, threads)
            if seismic:
                contenders["Seismic (approximate)", threads] = partial(seismic.search, threads=threads)
        rows += [row for k in sizes["k"] for row in _cell(exact, contenders, queries, k, sizes["rounds"])]
    return rows


def _cell(
    exact: ExactSearcher, contenders: dict[tuple[str, int], Search], queries: Queries, k: int, rounds: int
) -> list[dict[str, Any]]:
    named = {f"{name}/{threads}": (name, threads) for name, threads in contenders}
    calls: dict[str, Callable[[], object]] = {
        key: partial(contenders[which], queries, k) for key, which in named.items()
    }
    recalls = {key: _recall(exact, contenders[which](queries, k), queries, k) for key, which in named.items()}
    seconds = harness.interleave(calls, rounds)
    terms = len(next(iter(queries.values())))
    return [
        {
            "contender": name, "threads": threads, "query_terms": terms, "k": k, "seconds": seconds[key],
            "ms": _per_query(seconds[key], len(queries)), "recall": recalls[key],
        }
        for key, (name, threads) in named.items()
    ]  # fmt: skip


def _recall(exact: ExactSearcher, found: Found, queries: Queries, k: int) -> float:
    """The share of hits that are as good as the exact ones; of equally good documents it takes any."""
    good = wanted = 0
    for name, query in queries.items():
        best = exact.search(query, k)
        scores = dict(zip(exact.ids, exact.scores(query).tolist(), strict=True))
        good += sum(scores[document] >= best[-1][1] for document, _ in found[name]) if best else 0
        wanted += len(best)
    return round(good / wanted, 4) if wanted else 1.0


def _growth(impacts: SparseBatch, index: Path, sizes: dict[str, Any]) -> list[dict[str, Any]]:
    """One thread, queries of middling length: the exact searcher and Lucene, which leaves out what cannot win."""
    exact = ExactSearcher(document_ids(len(impacts)), impacts)
    terms = sizes["query_terms"][1]
    queries = synthetic_queries(sizes["queries"], terms)
    searches: dict[str, Search] = {OURS: exact.search_batch, "Lucene, ids in bulk": lucene(index, 1)}
    rows = []
    for k in sizes["k"]:
        calls: dict[str, Callable[[], object]] = {
            name: partial(search, queries, k) for name, search in searches.items()
        }
        for name, seconds in harness.interleave(calls, sizes["rounds"], warm=2).items():
            row = {"contender": name, "documents": len(impacts), "query_terms": terms, "k": k, "seconds": seconds}
            rows.append({**row, "ms": _per_query(seconds, len(queries))})
    return rows


def loading(folder: str, rounds: int) -> dict[str, Any]:
    """A folder of vectors to a searcher, straight and through a dict for each document."""
    from learned_sparse.jsonvector import read_vectors

    calls: dict[str, Callable[[], object]] = {
        "from a folder": lambda: ExactSearcher.load(folder),
        "from dicts": lambda: ExactSearcher.from_vectors(read_vectors(folder)),
    }
    documents = len(ExactSearcher.load(folder))
    found = harness.interleave(calls, rounds)
    return {"rows": [{"contender": name, "documents": documents, "seconds": found[name]} for name in calls]}


def footprint(folder: str | None) -> dict[str, Any]:
    """What a searcher loaded from ``folder`` holds; without one, an empty searcher."""
    exact = ExactSearcher.load(folder) if folder else ExactSearcher.from_vectors([])
    postings = exact._postings
    arrays = (postings._documents, postings._impacts, postings._bounds)
    return {"documents": len(exact), "postings": len(postings._impacts), "bytes": sum(a.nbytes for a in arrays)}


def _memory(vectors: Path) -> dict[str, Any]:
    """The peaks of two fresh processes, one of which loads nothing."""
    without = harness.child("tests.benchmarks.exact:footprint", folder=None)
    loaded = harness.child("tests.benchmarks.exact:footprint", folder=str(vectors))
    return {
        "documents": loaded["documents"],
        "bytes_per_posting": round(loaded["bytes"] / loaded["postings"], 2),
        "postings_mb": round(loaded["bytes"] / 1e6, 1),
        "libraries_mb": without["peak_mb"],
        "peak_beyond_libraries_mb": round(loaded["peak_mb"] - without["peak_mb"], 1),
        "files_mb": round(sum(file.stat().st_size for file in vectors.iterdir()) / 1e6, 1),
    }


def _ratios(rows: list[dict[str, Any]], loaded: list[dict[str, Any]], sizes: dict[str, Any]) -> dict[str, float]:
    """How many times as fast the exact searcher is as each of the others with the same threads."""
    found = {}
    for row in rows:
        ours = next(
            other for other in rows
            if other["contender"] == OURS and all(other[key] == row[key] for key in ("threads", "query_terms", "k"))
        )  # fmt: skip
        if row is not ours:
            name = f"{row['contender']}, {row['threads']} threads, {row['query_terms']} terms, k={row['k']}"
            found[name] = round(harness.median_ratio(row["seconds"], ours["seconds"]), 2)
    straight, dicts = (row["seconds"] for row in loaded)
    return {**found, "loading, through dicts": round(harness.median_ratio(dicts, straight), 2)}


def _per_query(seconds: list[float], queries: int) -> float:
    return round(statistics.median(seconds) / queries * 1000, 3)


def _has_seismic() -> bool:
    return bool(harness.installed("pyseismic-lsr"))
