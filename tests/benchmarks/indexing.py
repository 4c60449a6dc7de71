"""Documents a second from vector files to a searchable index: directly, and by Anserini's IndexCollection."""

from __future__ import annotations

import resource
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse.core.records import SparseBatch
from learned_sparse.index.build import index_directly
from learned_sparse.lucene.searchers import read_contents
from tests.benchmarks import harness
from tests.learned_sparse.encoded_folder import write_part
from tests.learned_sparse.lucene.stock_searcher import index_collection

SEED = 0
VOCABULARY, TERMS, FILES = 30_522, 120, 2
METHODS = ("direct", "anserini")
START = "start-up"
"""One document: the time of the start of a process."""
Key = tuple[str, str, int]
"""Vectors, method, threads."""


def run(toy: bool) -> dict[str, Any]:
    """Both methods with one and two threads on weights of two sizes: documents, and the largest weight."""
    documents, rounds, threads = (60, 1, (1,)) if toy else (6_000, 3, (1, 2))
    sets = {"8 bits": 255} if toy else {"8 bits": 255, "up to 1,000": 1_000}
    measured: dict[Key, list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write(folder / START, 1, 1)
        sums = {name: write(folder / name, documents, largest) for name, largest in sets.items()}

        def measure(key: Key) -> None:
            arguments = {"method": key[1], "folder": str(folder / key[0]), "threads": key[2]}
            measured[key].append(harness.child("tests.benchmarks.indexing:index", **arguments))

        keys = [(START, method, 1) for method in METHODS]
        keys += [(name, method, number) for name in sets for method in METHODS for number in threads]
        harness.interleave({repr(key): partial(measure, key) for key in keys}, rounds, warm=0)
    start_up = {method: _seconds(measured[START, method, 1]) for method in METHODS}
    rows = [row(key, measured[key], statistics.median(start_up[key[1]])) for key in keys if key[0] != START]
    if len({(line["vectors"], line["postings"], line["total_impacts"]) for line in rows}) != len(sets):
        raise RuntimeError(f"the methods give different indexes: {rows}")
    return {
        "sizes": {
            "documents": dict.fromkeys(sets, documents), "weights_per_document": sums, "terms": TERMS,
            "vocabulary": VOCABULARY, "files": FILES, "seed": SEED, "rounds": rounds,
        },
        "start_up_seconds": start_up, "rows": rows,
        "ratios": {name: ratios([line for line in rows if line["vectors"] == name]) for name in sets},
    }  # fmt: skip


def write(folder: Path, documents: int, largest: int) -> float:
    """Write JsonVectorCollection files; returns the mean sum of weights per document (Anserini writes it as words).

    The mean weight is a quarter of the largest.
    """
    rng = np.random.default_rng(SEED)
    letters = rng.integers(97, 123, size=(VOCABULARY, 8)).astype(np.uint8)
    lengths = rng.integers(2, 9, size=VOCABULARY)
    words = [bytes(word[:length]).decode() for word, length in zip(letters, lengths, strict=True)]
    terms = [f"{word}{number}" for number, word in enumerate(words)]
    frequent, total = np.cumsum(1 / np.arange(10, VOCABULARY + 10)), 0
    for part in range(FILES):
        ids = [f"d{number}" for number in range(part, documents, FILES)]
        draws = rng.random((len(ids), int(TERMS * 1.13))) * frequent[-1]
        rows = [np.unique(np.searchsorted(frequent, drawn)) for drawn in draws]
        indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        indices = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int32)
        values = np.ceil(rng.beta(1, 3, size=len(indices)) * largest).astype(np.int32).clip(1)
        texts = ["the words of a passage that is not read " * 8] * len(ids)
        write_part(folder / f"part-{part}.jsonl", ids, texts, SparseBatch(indptr, indices, values, terms))
        total += int(values.sum())
    return round(total / documents, 1)


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
    memory = harness.peak_mb() if method == "direct" else java_mb
    contents = read_contents(output)
    files = [file.stat().st_size for file in output.iterdir() if file.suffix != ".log"]
    return {
        "seconds": round(seconds, 3), "memory_mb": round(memory, 1), "documents": contents.documents,
        "postings": contents.postings, "total_impacts": contents.total_impacts,
        "index_mb": round(sum(files) / 1e6, 2),
    }  # fmt: skip


def row(key: Key, results: list[dict[str, Any]], start_up: float) -> dict[str, Any]:
    """One row of a result; ``net`` excludes the start of the process."""
    facts = {name: results[0][name] for name in ("documents", "postings", "total_impacts", "index_mb")}
    median = statistics.median(_seconds(results))
    return {
        "vectors": key[0], "contender": key[1], "threads": key[2], "seconds": _seconds(results), **facts,
        "documents_per_second": round(facts["documents"] / median, 1),
        "net_documents_per_second": round(facts["documents"] / max(median - start_up, 1e-3), 1),
        "peak_mb": max(result["memory_mb"] for result in results),
    }  # fmt: skip


def _seconds(results: list[dict[str, Any]]) -> list[float]:
    return [result["seconds"] for result in results]


def ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Speed ratios with the best number of threads of each method, with and without the start of the process."""
    result = {}
    for name, key in (("gross", "documents_per_second"), ("net", "net_documents_per_second")):
        best = {method: max(row[key] for row in rows if row["contender"] == method) for method in METHODS}
        result[name] = round(best["direct"] / best["anserini"], 2)
    return result


def markdown(result: Mapping[str, Any]) -> str:
    """Table of methods and threads."""
    sizes = result["sizes"]
    how = f"{sizes['terms']} terms a document, {sizes['files']} files, {sizes['rounds']} rounds"
    lines = [
        f"{how}; net: without the start of the process, which is measured with one document.",
        "",
        "| weights | sum a document | documents | | threads | documents/s | net | index MB | peak MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in result["rows"]:
        name = row["vectors"]
        lines.append(
            f"| {name} | {sizes['weights_per_document'][name]:,.0f} | {row['documents']:,} | {row['contender']} | "
            f"{row['threads']} | {row['documents_per_second']:,.0f} | {row['net_documents_per_second']:,.0f} | "
            f"{row['index_mb']} | {row['peak_mb']:,.0f} |"
        )
    for name, ratio in result["ratios"].items():
        lines += ["", f"{name}: direct is {ratio['net']} times as fast net, {ratio['gross']} times with the start."]
    return "\n".join(lines)
