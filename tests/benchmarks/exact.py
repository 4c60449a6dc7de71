"""Exact search in memory beside Lucene, stock Pyserini and Seismic: time per query, growth, loading, memory."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from learned_sparse import ExactSearcher, ImpactSearcher, SparseBatch, build_index
from learned_sparse.search import SeismicSearcher
from tests.benchmarks import harness
from tests.benchmarks.synthetic_vectors import document_ids, synthetic_impacts, synthetic_queries, write_vectors
from tests.learned_sparse.lucene.stock_searcher import impact_searcher

Queries = Mapping[str, Mapping[str, int]]
Hits = Mapping[str, Sequence[tuple[str, float]]]
Search = Callable[[Queries, int], Hits]
"""``(queries, k)`` to the hits of each query, best first."""

FULL: dict[str, Any] = {
    "documents": 50_000, "growth": [10_000, 50_000, 200_000], "terms": 120, "query_terms": [5, 20, 50], "k": [10, 1000],
    "queries": 20, "rounds": 5, "loaded": 10_000,
}  # fmt: skip
TOY: dict[str, Any] = {
    "documents": 600, "growth": [300, 600], "terms": 20, "query_terms": [5, 20], "k": [10, 1000],
    "queries": 3, "rounds": 2, "loaded": 300,
}  # fmt: skip
THREADS = 2
CUTS: Mapping[int, tuple[int, float]] = {10: (8, 0.9), 1000: (20, 0.7)}
"""``query_cut`` and ``heap_factor`` of Seismic for each ``k``."""
OURS, LUCENE = "exact, batch", "Lucene, ids in bulk"


def run(toy: bool) -> dict[str, Any]:
    """Measure queries on one collection, growth over several collections, and loading."""
    sizes = TOY if toy else FULL
    largest = synthetic_impacts(max(sizes["growth"]), sizes["terms"])
    growth: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for count in sorted({*sizes["growth"], sizes["documents"], sizes["loaded"]}):
            impacts, vectors = largest.take(range(count)), Path(folder) / str(count)
            write_vectors(vectors, impacts)
            if count == sizes["loaded"]:
                loading = harness.child("tests.benchmarks.exact:loading", folder=str(vectors), rounds=sizes["rounds"])
                memory = _memory(vectors)
            index = Path(folder) / f"{count}.index"
            build_index(vectors, index)
            if count == sizes["documents"]:
                rows = _query_rows(impacts, index, sizes)
            growth += _growth_rows(impacts, index, sizes) if count in sizes["growth"] else []
    counts = {"documents": sizes["documents"], "postings": int(largest.indptr[sizes["documents"]]), "seed": 0}
    return {
        "sizes": {**sizes, **counts},
        "rows": rows,
        "growth": growth,
        "loading": loading["rows"],
        "memory": memory,
        "ratios": _ratios(rows),
        "missing": [] if _has_seismic() else ["pyseismic-lsr"],
    }


def loading(folder: str, rounds: int) -> dict[str, Any]:
    """Seconds from a folder of vectors to a searcher."""
    seconds = harness.interleave({OURS: lambda: ExactSearcher.load(folder)}, rounds)
    documents = len(ExactSearcher.load(folder))
    return {
        "rows": [{"contender": name, "documents": documents, "seconds": elapsed} for name, elapsed in seconds.items()]
    }


def footprint(folder: str | None) -> dict[str, Any]:
    """Load ``folder``, or nothing, in this process, whose peak memory the harness reports."""
    return {"documents": len(ExactSearcher.load(folder)) if folder else 0}


def _memory(vectors: Path) -> dict[str, Any]:
    """Peak memory of two processes; one of them loads nothing."""
    libraries = harness.child("tests.benchmarks.exact:footprint", folder=None)
    loaded = harness.child("tests.benchmarks.exact:footprint", folder=str(vectors))
    return {
        "documents": loaded["documents"],
        "libraries_mb": libraries["peak_mb"],
        "peak_beyond_libraries_mb": round(loaded["peak_mb"] - libraries["peak_mb"], 1),
        "files_mb": round(sum(file.stat().st_size for file in vectors.iterdir()) / 1e6, 1),
    }


def _query_rows(impacts: SparseBatch, index: Path, sizes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every contender for every query length and every ``k``, in turn."""
    ids, rows = document_ids(len(impacts)), []
    exact, lucene = ExactSearcher(ids, impacts), ImpactSearcher(index)
    seismic = _seismic(ids, impacts) if _has_seismic() else None
    for terms in sizes["query_terms"]:
        queries = synthetic_queries(sizes["queries"], terms)
        contenders: dict[tuple[str, int], Search] = {}
        for threads in (1, THREADS):
            contenders[OURS, threads] = partial(exact.search_batch, threads=threads)
            contenders[LUCENE, threads] = partial(lucene.search_batch, threads=threads)
            contenders["stock Pyserini, batch_search", threads] = _stock_pyserini(index, queries, threads)
            if seismic:
                contenders["Seismic (approximate)", threads] = partial(seismic, threads=threads)
        rows += [row for k in sizes["k"] for row in _cell(exact, contenders, queries, k, sizes["rounds"])]
    return rows


def _cell(
    exact: ExactSearcher, contenders: Mapping[tuple[str, int], Search], queries: Queries, k: int, rounds: int
) -> list[dict[str, Any]]:
    keys = {f"{name}/{threads}": (name, threads) for name, threads in contenders}
    calls: dict[str, Callable[[], object]] = {
        key: partial(contenders[contender], queries, k) for key, contender in keys.items()
    }
    recalls = {key: _recall(exact, contenders[contender](queries, k), queries, k) for key, contender in keys.items()}
    seconds = harness.interleave(calls, rounds)
    terms = len(next(iter(queries.values())))
    return [
        {
            "contender": name, "threads": threads, "query_terms": terms, "k": k, "seconds": seconds[key],
            "ms": _per_query(seconds[key], len(queries)), "recall": recalls[key],
        }
        for key, (name, threads) in keys.items()
    ]  # fmt: skip


def _recall(exact: ExactSearcher, hits: Hits, queries: Queries, k: int) -> float:
    """Share of the hits that score at least as high as the exact k-th hit."""
    relevant = total = 0
    for name, query in queries.items():
        best = exact.search(query, k)
        scores = dict(zip(exact.ids, exact.scores(query).tolist(), strict=True))
        relevant += sum(scores[document] >= best[-1][1] for document, _ in hits[name]) if best else 0
        total += len(best)
    return round(relevant / total, 4) if total else 1.0


def _growth_rows(impacts: SparseBatch, index: Path, sizes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The exact searcher and Lucene, which skips documents with low score bounds, on one thread."""
    exact = ExactSearcher(document_ids(len(impacts)), impacts)
    terms = sizes["query_terms"][1]
    queries = synthetic_queries(sizes["queries"], terms)
    searches: dict[str, Search] = {OURS: exact.search_batch, LUCENE: ImpactSearcher(index).search_batch}
    rows = []
    for k in sizes["k"]:
        calls = {name: partial(search, queries, k) for name, search in searches.items()}
        for name, seconds in harness.interleave(calls, sizes["rounds"], warm=2).items():
            row = {"contender": name, "documents": len(impacts), "query_terms": terms, "k": k, "seconds": seconds}
            rows.append({**row, "ms": _per_query(seconds, len(queries))})
    return rows


def _ratios(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Time of each other contender divided by that of the exact searcher, at the same number of threads."""
    cell = ("threads", "query_terms", "k")
    ours = {tuple(row[key] for key in cell): row["seconds"] for row in rows if row["contender"] == OURS}
    return {
        f"{row['contender']}, {row['threads']} threads, {row['query_terms']} terms, k={row['k']}": round(
            harness.median_ratio(row["seconds"], ours[tuple(row[key] for key in cell)]), 2
        )
        for row in rows
        if row["contender"] != OURS
    }


def _per_query(seconds: Sequence[float], queries: int) -> float:
    return round(statistics.median(seconds) / queries * 1000, 3)


def _stock_pyserini(index: Path, queries: Queries, threads: int) -> Search:
    """``LuceneImpactSearcher.batch_search`` with an encoder that knows the impacts of ``queries``."""
    searcher = impact_searcher(index, queries)

    def search(batch: Queries, k: int) -> Hits:
        hits = searcher.batch_search(list(batch), list(batch), k, threads)
        return {name: [(hit.docid, hit.score) for hit in hits.get(name, [])] for name in batch}

    return search


def _seismic(ids: Sequence[str], impacts: SparseBatch) -> Callable[..., Hits]:
    """``pyseismic-lsr``, which is approximate; its settings are not tuned to these vectors."""
    searchers = {
        k: SeismicSearcher(ids, impacts, query_cut=cut, heap_factor=factor) for k, (cut, factor) in CUTS.items()
    }
    return lambda queries, k, threads: searchers[k].search_batch(queries, k, threads)


def _has_seismic() -> bool:
    return bool(harness.installed("pyseismic-lsr"))


def markdown(result: Mapping[str, Any]) -> str:
    """Tables of queries and growth; a sentence on loading and memory."""
    sizes, memory = result["sizes"], result["memory"]
    rates = [
        f"{row['contender']} {row['documents'] / statistics.median(row['seconds']):,.0f}" for row in result["loading"]
    ]
    head = (
        f"{sizes['documents']:,} documents of {sizes['postings'] / sizes['documents']:.0f} terms, batches of "
        f"{sizes['queries']} queries; milliseconds per query, median of {sizes['rounds']} (recall if below 1):"
    )
    load = (
        f"Loading, documents per second: {', '.join(rates)}. {memory['files_mb']:,.0f} MB of files take at most "
        f"{memory['peak_beyond_libraries_mb']:,.0f} MB beyond the {memory['libraries_mb']:,.0f} MB of libraries."
    )
    lines = [
        head,
        "",
        *_query_table(result["rows"]),
        "",
        f"One thread, queries of {result['growth'][0]['query_terms']} terms, milliseconds per query:",
        "",
        *_growth_table(result["growth"]),
        "",
        load,
    ]
    lines += ["", f"Not installed: {', '.join(result['missing'])}."] if result["missing"] else []
    return "\n".join(lines)


def _query_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = {(row["contender"], row["threads"], row["query_terms"], row["k"]): row for row in rows}
    columns = list(dict.fromkeys((terms, k) for _, _, terms, k in cells))
    heads = [f"{terms} terms, k={k:,}" for terms, k in columns]
    lines = [f"| | threads | {' | '.join(heads)} |", "|---|---:|" + "---:|" * len(heads)]
    for name, threads in dict.fromkeys((name, threads) for name, threads, _, _ in cells):
        line = [cells[name, threads, terms, k] for terms, k in columns]
        texts = [f"{row['ms']:.2f}" + (f" ({row['recall']:.3f})" if row["recall"] < 1 else "") for row in line]
        lines.append(f"| {name} | {threads} | {' | '.join(texts)} |")
    return lines


def _growth_table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = {(row["contender"], row["k"], row["documents"]): row["ms"] for row in rows}
    sizes = sorted({documents for _, _, documents in cells})
    heads = " | ".join(f"{documents:,} documents" for documents in sizes)
    lines = [f"| | k | {heads} |", "|---|---:|" + "---:|" * len(sizes)]
    for k, name in dict.fromkeys((k, name) for name, k, _ in cells):
        times = " | ".join(f"{cells[name, k, documents]:.2f}" for documents in sizes)
        lines.append(f"| {name} | {k:,} | {times} |")
    return lines
