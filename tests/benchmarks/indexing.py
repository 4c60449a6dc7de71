"""Documents a second from vector files to a searchable index: directly, and by Anserini's IndexCollection."""

from __future__ import annotations

import itertools
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
from tests.benchmarks.run import child, interleave
from tests.benchmarks.searching import SEED, vectors
from tests.learned_sparse.encoded_folder import write_folder
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
    results: dict[tuple[str, str, int], list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_folder(folder / START, vectors(1, TERMS, SEED))
        for name, largest in SETS.items():
            write_folder(folder / name, vectors(documents, TERMS, SEED, largest), parts=FILES)

        def measure(name: str, method: str, count: int) -> None:
            results[name, method, count].append(
                child(index, method=method, folder=folder / name / "vectors", threads=count)
            )

        keys = list(itertools.product(SETS, METHODS, threads))
        contenders = [*itertools.product([START], METHODS, [1]), *keys]
        interleave({str(key): partial(measure, *key) for key in contenders}, rounds, warm=0)
    seconds = {key: [result["seconds"] for result in results[key]] for key in contenders}
    rows = []
    for name, method, count in keys:
        net = statistics.median(seconds[name, method, count]) - statistics.median(seconds[START, method, 1])
        rows.append({
            "vectors": name, "contender": method, "threads": count, **results[name, method, count][0],
            "seconds": seconds[name, method, count], "net_documents_per_second": round(documents / max(net, 1e-3), 1),
        })  # fmt: skip
    if len({(row["vectors"], row["postings"], row["total_impacts"]) for row in rows}) != len(SETS):
        raise RuntimeError(f"the methods give different indexes: {rows}")
    sizes = {"documents": documents, "terms": TERMS, "files": FILES, "seed": SEED, "rounds": rounds}
    return {"sizes": sizes, "rows": rows}


def index(method: str, folder: Path, threads: int) -> dict[str, Any]:
    """Build an index beside ``folder``: Java runs in this process, or as its only child."""
    output = folder.with_name("index")
    shutil.rmtree(output, ignore_errors=True)
    start = time.perf_counter()
    if method == "direct":
        output.mkdir()
        index_directly(sorted(folder.iterdir()), output, threads=threads)
    else:
        index_collection(folder, output, "-impact", "-pretokenized", threads=threads)
    seconds, contents = round(time.perf_counter() - start, 3), read_contents(output)
    return {"seconds": seconds, "postings": contents["postings"], "total_impacts": contents["total_impacts"]}
