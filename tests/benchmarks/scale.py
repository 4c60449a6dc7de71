"""``python -m tests.benchmarks.scale``: a million documents encoded, indexed and searched, by one process and with Ray.

Encoding takes a one-layer model and short texts; index and search take synthetic vectors of 120 terms. Each step is a
process of its own. Memory is the largest sum, over the process and all that it starts, of the memory that is its own
and its share of what is shared (PSS); with Ray it includes Ray's own processes.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from learned_sparse.core import LuceneTerms, Quantizer, processors, write_json
from learned_sparse.jsonvector import Counts, Manifest, Part, write_part
from tests.benchmarks import harness
from tests.benchmarks.growth import narrow_model
from tests.benchmarks.passages import passages
from tests.benchmarks.synthetic_vectors import synthetic_impacts, synthetic_queries

PART, TERMS, HITS, QUERIES, QUERY_TERMS, WORDS = 10_000, 120, 1000, 256, 20, 8
COLUMNS = ("documents", "engine", "step", "seconds", "per second", "memory, MB", "disk, MB")


def main(argv: list[str] | None = None) -> int:
    """Measure all steps for each number of documents, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.scale", description=main.__doc__)
    parser.add_argument("--documents", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 2], help="of Ray; 0: one process without Ray")
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--output", type=Path, help="result as JSON")
    options = parser.parse_args(argv)
    rows = []
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = narrow_model(folder / "model")
        for documents in options.documents:
            write_texts(folder / "corpus.jsonl", documents)
            write_vectors(folder / "vectors", documents)
            for workers in options.workers:
                rows += [measured(step, folder, model, documents, workers) for step in ("encode", "index", "search")]
    result = {
        "rows": rows, "environment": harness.environment(), "versions": harness.installed("ray", "torch", "pyserini"),
    }  # fmt: skip
    if options.output:
        write_json(options.output, result)
    print(markdown(result))
    return 0


def measured(step: str, folder: Path, model: Path, documents: int, workers: int) -> dict[str, Any]:
    """Time, memory and disk of one step."""
    sizes: list[int] = []
    with sampled_memory(sizes):
        start = time.perf_counter()
        result = harness.child(
            f"tests.benchmarks.scale:{step}", folder=str(folder), model=str(model), workers=workers
        )  # fmt: skip
        seconds = time.perf_counter() - start
    count = QUERIES if step == "search" else documents
    row = {
        "documents": documents, "engine": f"Ray, {workers} workers" if workers else "one process", "step": step,
        "seconds": round(seconds, 1), "per second": round(count / result["seconds"], 1),
        "memory, MB": round(max(sizes) / 1e6), "disk, MB": round(result["disk"] / 1e6),
    }  # fmt: skip
    print(json.dumps(row), flush=True)
    return row


def encode(folder: str, model: str, workers: int) -> dict[str, Any]:
    """Encode the texts; the time is that of the whole command without its imports."""
    from learned_sparse.encode.__main__ import main as command

    output = Path(folder, f"encoded-{workers}")
    words = ["--model", "narrow", "--checkpoint", model, "--input", f"{folder}/corpus.jsonl", "--output", str(output)]
    return timed(output, lambda: command([*words, "--overwrite", "--dtype", "fp32", *engine_words(workers)]))


def index(folder: str, model: str, workers: int) -> dict[str, Any]:
    """Index and verify the synthetic vectors; with Ray as a set of shards."""
    from learned_sparse.index.__main__ import main as command

    output, shards = Path(folder, f"index-{workers}"), ["--keep-shards"] if workers else []
    words = ["--input", f"{folder}/vectors", "--index", str(output), "--overwrite", "--heap", "1g", *shards]
    return timed(output, lambda: command([*words, *engine_words(workers)]))


def search(folder: str, model: str, workers: int) -> dict[str, Any]:
    """Search 256 synthetic queries for 1,000 hits."""
    from learned_sparse.distribute import Engine
    from learned_sparse.index import IndexNote
    from learned_sparse.search import open_searcher, search_with_ray

    path, queries = Path(folder, f"index-{workers}"), synthetic_queries(QUERIES, QUERY_TERMS)
    note = IndexNote.load(path)
    opened = search_with_ray(Engine(workers=workers), path, note) if workers else open_searcher(path, note.scoring)
    with opened as searcher:
        searcher(dict(itertools.islice(queries.items(), 16)), HITS, 1)
        return timed(path, lambda: searcher(queries, HITS, 1 if workers else processors()))


def timed(output: Path, work: Any) -> dict[str, Any]:
    """Seconds of ``work`` and size of what it wrote."""
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "disk": sum(path.stat().st_size for path in output.rglob("*") if path.is_file())}


def engine_words(workers: int) -> list[str]:
    """Options of the engine."""
    return ["--engine", "ray", "--workers", str(workers)] if workers else []


@contextlib.contextmanager
def sampled_memory(sizes: list[int]) -> Iterator[None]:
    """Adds the memory of all processes below this one to ``sizes``, several times a second."""
    ended = threading.Event()

    def sample() -> None:
        while True:
            total = 0
            for process in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    total += process.memory_full_info().pss
            sizes.append(total)
            if ended.wait(0.3):
                return

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def write_texts(path: Path, documents: int) -> None:
    """A collection of short texts, drawn from passages."""
    words = " ".join(passages(200)).split()
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number in range(documents):
            start = number * WORDS % (len(words) - WORDS)
            file.write(json.dumps({"id": f"d{number}", "text": " ".join(words[start : start + WORDS])}) + "\n")


def write_vectors(folder: Path, documents: int) -> None:
    """An encoded collection of synthetic vectors, one part in memory at a time."""
    parts, counts = [], Counts()
    for number, start in enumerate(range(0, documents, PART)):
        impacts = synthetic_impacts(min(PART, documents - start), TERMS, seed=number)
        ids = [f"d{start + row}" for row in range(len(impacts))]
        file = f"vectors/part-{number:05d}.jsonl"
        digest = write_part(folder / file, ids, ["text"] * len(ids), impacts, terms=LuceneTerms(impacts.terms))
        parts.append(Part(file=file, documents=len(ids), sha256=digest))
        empty = int((impacts.indptr[1:] == impacts.indptr[:-1]).sum())
        part = Counts(read=len(ids), written=len(ids), postings=len(impacts.values), empty_vectors=empty)
        counts = Counts.total([counts, part])
    Manifest(
        kind="documents", complete=True, collection="synthetic", model="synthetic", checkpoint="synthetic",
        architecture="synthetic", scoring="impact", encoder={}, quantizer=Quantizer(1.0), counts=counts,
        parts=tuple(parts),
    ).save(folder)  # fmt: skip


def markdown(result: Mapping[str, Any]) -> str:
    """The rows, and how memory grows from the smallest to the largest collection."""
    rows = result["rows"]
    about = (
        f"Encoding: a model of one layer, texts of {WORDS} words. Index and search: synthetic vectors of {TERMS} "
        f"terms, {QUERIES} queries of {QUERY_TERMS} terms, {HITS:,} hits; with Ray as a set of shards. *Seconds* are "
        "those of the whole process; *per second* is documents, or queries, without its start. Indexing lets Java use "
        "1 GB (`--heap 1g`), which it fills as collections grow; a search maps its index into memory."
    )
    lines = [
        about,
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|--:|---|---|" + "--:|" * (len(COLUMNS) - 3),
    ]
    for row in rows:
        values = [f"{row[name]:,}" if isinstance(row[name], int | float) else row[name] for name in COLUMNS]
        lines.append(f"| {' | '.join(values)} |")
    small, large = (bound(row["documents"] for row in rows) for bound in (min, max))
    memory = {(row["documents"], row["engine"], row["step"]): row["memory, MB"] for row in rows}
    growth = [
        f"{step}, {engine}: {memory[large, engine, step] - megabytes:+,} MB"
        for (documents, engine, step), megabytes in memory.items()
        if documents == small
    ]
    lines += ["", f"Memory for {large:,} documents minus that for {small:,}: {'; '.join(growth)}."]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
