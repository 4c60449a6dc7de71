"""Documents a second from vector files to a searchable index: directly, and by Anserini's IndexCollection."""

from __future__ import annotations

import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from learned_sparse.core.records import SparseBatch
from learned_sparse.index.direct import index_directly
from learned_sparse.lucene.reader import read_contents
from tests.benchmarks import harness
from tests.learned_sparse.encoded_folder import write_part
from tests.learned_sparse.lucene.stock_searcher import index_collection

SEED = 0
VOCABULARY, TERMS, FILES = 30_522, 120, 2
OPTIONS = ["-impact", "-pretokenized"]
METHODS = ("direct", "anserini")


@dataclass(frozen=True)
class Vectors:
    """Synthetic vectors: number of documents and largest weight; the mean weight is a quarter of the largest."""

    name: str
    documents: int
    largest: int


REAL = (Vectors("8 bits", 6_000, 255), Vectors("up to 1,000", 6_000, 1_000))
TINY = (Vectors("8 bits", 60, 255),)


def run(toy: bool) -> dict[str, Any]:
    """Both methods with one and two threads; the faster number of threads in the first round is measured."""
    return measure(TINY, (1,), 1) if toy else measure(REAL, (1, 2), 5)


def measure(sets: tuple[Vectors, ...], threads: tuple[int, ...], rounds: int) -> dict[str, Any]:
    """Index all ``sets`` with both methods, in turn, each time in a fresh process."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        single = Vectors("start-up", 1, 1)
        weights = {vectors.name: write(vectors, folder / vectors.name) for vectors in (single, *sets)}
        calls = {
            (vectors.name, method, number): partial(index, method, folder / vectors.name, number)
            for vectors in (single, *sets)
            for method in METHODS
            for number in (threads if vectors is not single else (1,))
        }
        measured = {
            key: {**first_measurement(key[1], folder / key[0], key[2]), **size(folder / key[0])} for key in calls
        }
        _require_same(measured)
        best = {
            min((k for k in calls if k[:2] == key[:2]), key=lambda k: measured[k]["first_seconds"]) for key in calls
        }
        seconds = _interleave({key: calls[key] for key in calls if key in best}, rounds)
    start_up = {method: statistics.median(seconds["start-up", method, 1]) for method in METHODS}
    rows = [
        row(
            vectors,
            method,
            number,
            seconds[vectors.name, method, number],
            start_up[method],
            measured[vectors.name, method, number],
        )
        for vectors in sets
        for method in METHODS
        for number in threads
        if (vectors.name, method, number) in best
    ]
    return {
        "sizes": {
            "documents": {vectors.name: vectors.documents for vectors in sets},
            "weights_per_document": {vectors.name: weights[vectors.name] for vectors in sets},
            "terms": TERMS,
            "vocabulary": VOCABULARY,
            "files": FILES,
            "seed": SEED,
            "rounds": rounds,
        },
        "first_seconds": {" ".join(map(str, key)): facts["first_seconds"] for key, facts in measured.items()},
        "start_up_seconds": {method: seconds["start-up", method, 1] for method in METHODS},
        "rows": rows,
        "ratios": {vectors.name: ratios([row for row in rows if row["vectors"] == vectors.name]) for vectors in sets},
    }


def write(vectors: Vectors, folder: Path) -> float:
    """Write JsonVectorCollection files; returns the mean sum of weights per document (Anserini writes it as words)."""
    rng = np.random.default_rng(SEED)
    letters = rng.integers(97, 123, size=(VOCABULARY, 8)).astype(np.uint8)
    lengths = rng.integers(2, 9, size=VOCABULARY)
    words = [bytes(word[:length]).decode() for word, length in zip(letters, lengths, strict=True)]
    terms = [f"{word}{number}" for number, word in enumerate(words)]
    frequent = np.cumsum(1 / np.arange(10, VOCABULARY + 10))
    total = 0
    for part in range(FILES):
        ids = [f"d{number}" for number in range(part, vectors.documents, FILES)]
        rows = [
            np.unique(np.searchsorted(frequent, rng.random(int(TERMS * 1.13)) * frequent[-1]))[: 2 * TERMS] for _ in ids
        ]
        indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        indices = np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int32)
        values = np.ceil(rng.beta(1, 3, size=len(indices)) * vectors.largest).astype(np.int32).clip(1)
        texts = ["the words of a passage that is not read " * 8] * len(ids)
        write_part(folder / f"part-{part}.jsonl", ids, texts, SparseBatch(indptr, indices, values, terms))
        total += int(values.sum())
    return round(total / vectors.documents, 1)


def index(method: str, folder: Path, threads: int) -> dict[str, Any]:
    """Build one index beside ``folder`` in a fresh process of Java, or of Python that runs Java."""
    output = folder.with_name("index")
    shutil.rmtree(output, ignore_errors=True)
    if method == "anserini":
        index_collection(folder, output, *OPTIONS, threads=threads)
        return {}
    return harness.child("tests.benchmarks.indexing:direct", folder=str(folder), output=str(output), threads=threads)


def direct(folder: str, output: str, threads: int) -> dict[str, Any]:
    """Index directly, in this process."""
    Path(output).mkdir()
    counts = index_directly(sorted(Path(folder).iterdir()), Path(output), threads=threads)
    return {"documents": counts.documents}


def stock(folder: str, output: str, threads: int) -> dict[str, Any]:
    """Run Anserini as the only child of this process, so that the memory of children is Anserini's."""
    start = time.perf_counter()
    index_collection(Path(folder), Path(output), *OPTIONS, threads=threads)
    elapsed = round(time.perf_counter() - start, 3)
    java_mb = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6, 1)
    return {"java_mb": java_mb, "first_seconds": elapsed}


def first_measurement(method: str, folder: Path, threads: int) -> dict[str, Any]:
    """Warm-up run: its memory and seconds, which decide the number of threads."""
    output = folder.with_name("index")
    shutil.rmtree(output, ignore_errors=True)
    if method == "direct":
        start = time.perf_counter()
        memory = index(method, folder, threads)["peak_mb"]
        return {"peak_mb": memory, "first_seconds": round(time.perf_counter() - start, 3)}
    # The harness overwrites peak_mb with the memory of Python, so the memory of Java has another key.
    arguments = {"folder": str(folder), "output": str(output), "threads": threads}
    measured = harness.child("tests.benchmarks.indexing:stock", **arguments)
    return {"peak_mb": measured["java_mb"], "first_seconds": measured["first_seconds"]}


def size(folder: Path) -> dict[str, Any]:
    """Contents of the index beside ``folder``, and its size on disk."""
    index_folder = folder.with_name("index")
    contents = read_contents(index_folder)
    files = [file.stat().st_size for file in index_folder.iterdir() if file.suffix != ".log"]
    return {
        "documents": contents.documents,
        "postings": contents.postings,
        "total_impacts": contents.total_impacts,
        "index_mb": round(sum(files) / 1e6, 2),
    }


def _require_same(results: Mapping[tuple[str, str, int], Mapping[str, Any]]) -> None:
    counts = {
        (name, *(facts[key] for key in ("documents", "postings", "total_impacts")))
        for (name, *_), facts in results.items()
    }
    if len(counts) != len({name for name, *_ in results}):
        raise RuntimeError(f"the methods give different indexes: {results}")


def _interleave(
    calls: Mapping[tuple[str, str, int], Callable[[], object]], rounds: int
) -> dict[tuple[str, str, int], list[float]]:
    seconds = harness.interleave({repr(key): calls[key] for key in calls}, rounds, warm=0)
    return {key: [round(elapsed, 3) for elapsed in seconds[repr(key)]] for key in calls}


def row(
    vectors: Vectors, method: str, threads: int, seconds: list[float], start_up: float, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """One row of a result; ``seconds`` includes the start of the process, ``net`` excludes it."""
    median = statistics.median(seconds)
    return {
        "vectors": vectors.name,
        "contender": method,
        "threads": threads,
        "seconds": seconds,
        "documents_per_second": round(vectors.documents / median, 1),
        "net_documents_per_second": round(vectors.documents / max(median - start_up, 1e-3), 1),
        **facts,
    }


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
    how = f"{TERMS} terms a document, {sizes['files']} files, {sizes['rounds']} rounds"
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
