"""Documents a second from vector files to a searchable index: directly, and by Anserini's IndexCollection."""

from __future__ import annotations

import resource
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

from learned_sparse.index.build import index_directly
from learned_sparse.lucene.searchers import read_contents
from tests.benchmarks.run import child, interleave, memory_mb
from tests.benchmarks.searching import SEED, vectors, write_vectors
from tests.learned_sparse.lucene.stock_searcher import index_collection

TERMS, FILES = 120, 2
METHODS = ("direct", "anserini")
SETS = {"8 bits": 255, "up to 1,000": 1_000}
"""The largest weight; the mean is a quarter of it. Anserini writes a term as many times as its weight."""
START = "start-up"
"""One document: the time of the start of a process."""


def run(toy: bool) -> dict[str, Any]:
    """Both methods with one and two threads on weights of two sizes."""
    documents, rounds, threads = (60, 1, (1,)) if toy else (6_000, 3, (1, 2))
    measured: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_vectors(folder / START, vectors(1, TERMS, SEED))
        for name, largest in SETS.items():
            write_vectors(folder / name, vectors(documents, TERMS, SEED, largest), FILES)

        def measure(name: str, method: str, count: int) -> None:
            arguments = {"method": method, "folder": str(folder / name), "threads": count}
            measured[name, method, count].append(child("tests.benchmarks.indexing:index", **arguments))

        keys = [(START, method, 1) for method in METHODS]
        keys += [(name, method, count) for name in SETS for method in METHODS for count in threads]
        interleave({repr(key): partial(measure, *key) for key in keys}, rounds, warm=0)
    seconds = {key: [result["seconds"] for result in results] for key, results in measured.items()}
    rows = []
    for key in keys[len(METHODS) :]:
        (name, method, count), results, median = key, measured[key], statistics.median(seconds[key])
        net = max(median - statistics.median(seconds[START, method, 1]), 1e-3)
        rows.append({
            "vectors": name, "contender": method, "threads": count, **results[0], "seconds": seconds[key],
            "documents_per_second": round(documents / median, 1), "net_documents_per_second": round(documents / net, 1),
            "peak_mb": max(result["memory_mb"] for result in results),
        })  # fmt: skip
    if len({(row["vectors"], row["postings"], row["total_impacts"]) for row in rows}) != len(SETS):
        raise RuntimeError(f"the methods give different indexes: {rows}")
    sizes = {"documents": documents, "terms": TERMS, "files": FILES, "seed": SEED, "rounds": rounds}
    return {"sizes": sizes, "rows": rows, "ratios": {name: _ratios(name, rows) for name in SETS}}


def index(method: str, folder: str, threads: int) -> dict[str, Any]:
    """Build an index beside ``folder``: Java runs in this process, or as its only child."""
    output = Path(folder).with_name("index")
    shutil.rmtree(output, ignore_errors=True)
    start = time.perf_counter()
    if method == "direct":
        output.mkdir()
        index_directly(sorted(Path(folder).iterdir()), output, threads=threads)
    else:
        index_collection(Path(folder), output, "-impact", "-pretokenized", threads=threads)
    seconds = time.perf_counter() - start
    java_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6
    memory, contents = memory_mb() if method == "direct" else java_mb, read_contents(output)
    files = [file.stat().st_size for file in output.iterdir() if file.suffix != ".log"]
    return {
        "seconds": round(seconds, 3), "memory_mb": round(memory, 1), "documents": contents["documents"],
        "postings": contents["postings"], "total_impacts": contents["total_impacts"],
        "index_mb": round(sum(files) / 1e6, 2),
    }  # fmt: skip


def _ratios(name: str, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Speed ratios with the best number of threads of each method, with and without the start of the process."""
    ratios = {}
    for kind, key in (("gross", "documents_per_second"), ("net", "net_documents_per_second")):
        direct, anserini = (
            max(row[key] for row in rows if (row["vectors"], row["contender"]) == (name, method)) for method in METHODS
        )
        ratios[kind] = round(direct / anserini, 2)
    return ratios
