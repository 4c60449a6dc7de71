"""Seconds until a search has its first hit: a searcher of many distinct terms, and whole commands from nothing."""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core.records import Document
from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.index.vectors import encoded_files, plain_files
from learned_sparse.jsonvector.reader import read_vectors
from tests.benchmarks import harness

TERMS_PER_DOCUMENT = 100
"""Number of terms that occur in only one document."""
QUERY = {"all": 1, "t7": 3}
STOCK, OURS = "pyserini", "learned_sparse"
OPENED, COMMAND = "a searcher is made and has its first hits", "a command from its start to its end"


def run(toy: bool) -> dict[str, Any]:
    """Measure each searcher and command in new processes."""
    return measure(20, 1, warm=0) if toy else measure(5_000, 5)


def measure(documents: int, rounds: int, warm: int = 1) -> dict[str, Any]:
    """Searchers of an index of ``documents`` × 100 distinct terms; commands on an index of a few documents."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        build_index(plain_files([write_vectors(folder / "vectors", documents)]), folder / "index")
        opened = _in_turns(
            {contender: partial(_opened, contender, folder / "index") for contender in (STOCK, OURS)}, rounds, warm
        )
        commands = _in_turns(_commands(folder), rounds, warm)
    rows = [_row(OPENED, contender, measured) for contender, measured in opened.items()]
    rows += [_row(COMMAND, contender, measured) for contender, measured in commands.items()]
    return {
        "sizes": {"documents": documents, "distinct_terms": documents * TERMS_PER_DOCUMENT + 1, "rounds": rounds},
        "rows": rows,
        "ratios": {what: _ratios([row for row in rows if row["what"] == what]) for what in (OPENED, COMMAND)},
    }


def markdown(result: Mapping[str, Any]) -> str:
    """One line per searcher and command."""
    lines = ["| | | seconds | CPU seconds | peak memory, MB |", "|---|---|---:|---:|---:|"]
    for row in result["rows"]:
        seconds, cpu, peak = (statistics.median(row[name]) for name in ("seconds", "cpu_seconds", "peak_mb"))
        lines.append(f"| {row['what']} | {row['contender']} | {seconds:.2f} | {cpu:.2f} | {peak:.0f} |")
    ratio = next(iter(result["ratios"][OPENED].values()))
    return "\n".join(lines) + (
        f"\n\nThe searchers' index has {result['sizes']['distinct_terms']:,} distinct terms; Java runs and modules are "
        f"imported before the clock starts. Ours is {ratio:.0f} × as fast there."
    )


def write_vectors(folder: Path, documents: int) -> Path:
    """Write documents with 100 distinct terms each and one term that all documents share."""
    folder.mkdir()
    with (folder / "part.jsonl").open("wb") as file:
        for number in range(documents):
            distinct = {
                f"t{term}": 1 + term % 7
                for term in range(number * TERMS_PER_DOCUMENT, (number + 1) * TERMS_PER_DOCUMENT)
            }
            file.write(orjson.dumps({"id": f"d{number}", "contents": "", "vector": {"all": 1, **distinct}}) + b"\n")
    return folder


def first_hits(contender: str, index: str) -> dict[str, Any]:
    """Make a searcher and search once, after this process has started Java and imported the modules."""
    from learned_sparse.lucene.jvm import start_jvm

    start_jvm()
    if contender == STOCK:
        from pyserini.search.lucene import LuceneImpactSearcher

        class Encoded:
            def encode(self, _: str, **__: Any) -> dict[str, int]:
                return QUERY

        start, cpu = time.perf_counter(), time.process_time()
        hits = [hit.docid for hit in LuceneImpactSearcher(index, Encoded(), -1).search("x", 10)]
    else:
        from learned_sparse.lucene.searchers import ImpactSearcher

        start, cpu = time.perf_counter(), time.process_time()
        hits = [name for name, _ in ImpactSearcher(Path(index)).search(QUERY, 10)]
    return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu, "hits": hits}


def _opened(contender: str, index: Path) -> dict[str, Any]:
    result = harness.child("tests.benchmarks.startup:first_hits", contender=contender, index=str(index))
    if result["hits"][0] != "d0":
        raise RuntimeError(f"{contender} found {result['hits']}")
    return result


def _commands(folder: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """Commands that search indexes of a few documents, by SpaDE with bag-of-words queries and by BM25."""
    # Imported here because the measured processes import this module too.
    from encoders.encoding.model import new_model, save_checkpoint
    from learned_sparse.encode.__main__ import main as encode
    from tests.tiny_models import TEXTS, save_tiny

    documents = [Document(f"d{number}", text) for number, text in enumerate(filter(None, TEXTS))]
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in documents), encoding="utf-8")
    save_checkpoint(folder / "spade", new_model("spade", {}, str(save_tiny("bert", folder / "tiny"))))
    named = ["--model", "spade", "--checkpoint", str(folder / "spade"), "--device", "cpu"]
    if encode([*named, "--input", str(corpus), "--output", str(folder / "encoded")]):
        raise RuntimeError("encoding failed")
    build_index(encoded_files([folder / "encoded"]), folder / "impacts")
    build_bm25_index(documents, folder / "text")
    _, vector = next(iter(read_vectors(folder / "encoded")))
    words = [term for term in vector if term.isalpha()]  # terms that the untrained model gives the document
    text = " ".join([*documents[0].text.split(), *words])
    (folder / "topics.tsv").write_text(f"1\t{text}\n", encoding="utf-8")
    line = json.dumps({"contents": text, "vector": dict.fromkeys(words, 1)})
    (folder / "encoded.jsonl").write_text(line + "\n", encoding="utf-8")
    arguments = ["--topics", str(folder / "topics.tsv"), "--output", str(folder / "run.txt")]
    ours, stock = ["learned_sparse.search"], ["learned_sparse.pyserini", "search.lucene"]
    encoder = ["--impact", "--encoder", str(folder / "encoded.jsonl"), "--min-idf", "-1"]
    return {
        "pyserini search.lucene --impact": partial(
            _command, [*stock, "--index", str(folder / "impacts"), *arguments, *encoder]
        ),
        "learned_sparse.search, SpaDE": partial(_command, [*ours, "--index", str(folder / "impacts"), *arguments]),
        "learned_sparse.search, BM25": partial(_command, [*ours, "--index", str(folder / "text"), *arguments]),
    }


def _command(words: list[str]) -> dict[str, Any]:
    """One run of ``python -m ...``; CPU seconds and memory include all threads."""
    run = Path(words[words.index("--output") + 1])
    run.unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    command = [sys.executable, "-c", _MEASURED, *words]
    done = subprocess.run(command, cwd=harness.ROOT, capture_output=True, text=True, check=False)
    elapsed, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or not run.read_text(encoding="utf-8"):
        raise RuntimeError(f"{words} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": elapsed, "cpu_seconds": cpu, "peak_mb": float(done.stderr.rsplit(maxsplit=1)[-1])}


_MEASURED = """
import atexit, runpy, sys
from tests.benchmarks.harness import peak_mb
atexit.register(lambda: print(peak_mb(), file=sys.stderr))
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def _in_turns(
    contenders: Mapping[str, Callable[[], dict[str, Any]]], rounds: int, warm: int
) -> dict[str, list[dict[str, Any]]]:
    """Results of each contender in each round, without the first ``warm`` rounds."""
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    calls = {name: partial(lambda n, ask: measured[n].append(ask()), name, ask) for name, ask in contenders.items()}
    harness.interleave(calls, rounds, warm)
    return {name: results[warm:] for name, results in measured.items()}


def _row(what: str, contender: str, measured: list[dict[str, Any]]) -> dict[str, Any]:
    numbers = {key: [round(result[key], 3) for result in measured] for key in ("seconds", "cpu_seconds", "peak_mb")}
    return {"what": what, "contender": contender, **numbers}


def _ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Ratios to Pyserini, the first row."""
    stock, *ours = rows
    return {
        f"{stock['contender']} / {row['contender']}": round(harness.median_ratio(stock["seconds"], row["seconds"]), 2)
        for row in ours
    }
