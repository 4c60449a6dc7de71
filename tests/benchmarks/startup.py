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
from learned_sparse.index import build_bm25_index, build_index, encoded_files, plain_files
from learned_sparse.jsonvector import read_vectors
from tests.benchmarks import harness

EACH = 100
"""Terms that a document shares with no other."""
QUERY = {"all": 1, "t7": 3}
STOCK, OURS = "pyserini", "learned_sparse"
OPENED, COMMAND = "a searcher is made and has its first hits", "a command from its start to its end"


def run(toy: bool) -> dict[str, Any]:
    """Each time in a process of its own."""
    return measure(20, 1, warm=0) if toy else measure(5_000, 5)


def measure(documents: int, rounds: int, warm: int = 1) -> dict[str, Any]:
    """Searchers of an index of ``documents`` × 100 distinct terms; commands on an index of a few documents."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        build_index(plain_files([write_vectors(folder / "vectors", documents)]), folder / "index")
        opened = _in_turns({who: partial(_opened, who, folder / "index") for who in (STOCK, OURS)}, rounds, warm)
        commands = _in_turns(_commands(folder), rounds, warm)
    rows = [_row(OPENED, who, measured) for who, measured in opened.items()]
    rows += [_row(COMMAND, who, measured) for who, measured in commands.items()]
    return {
        "sizes": {"documents": documents, "distinct_terms": documents * EACH + 1, "rounds": rounds},
        "rows": rows,
        "ratios": {what: _ratios([row for row in rows if row["what"] == what]) for what in (OPENED, COMMAND)},
    }


def markdown(result: Mapping[str, Any]) -> str:
    """A line for each searcher and each command."""
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
    """Documents of 100 terms of their own and one of all."""
    folder.mkdir()
    with (folder / "part.jsonl").open("wb") as file:
        for number in range(documents):
            own = {f"t{term}": 1 + term % 7 for term in range(number * EACH, (number + 1) * EACH)}
            file.write(orjson.dumps({"id": f"d{number}", "contents": "", "vector": {"all": 1, **own}}) + b"\n")
    return folder


def first_hits(who: str, index: str) -> dict[str, Any]:
    """Make a searcher and ask it once, in this process, which starts Java and imports first what it takes."""
    from learned_sparse.lucene import start_jvm

    start_jvm()
    if who == STOCK:
        from pyserini.search.lucene import LuceneImpactSearcher

        class Encoded:
            def encode(self, _: str, **__: Any) -> dict[str, int]:
                return QUERY

        began, cpu = time.perf_counter(), time.process_time()
        hits = [hit.docid for hit in LuceneImpactSearcher(index, Encoded(), -1).search("x", 10)]
    else:
        from learned_sparse.lucene import ImpactSearcher

        began, cpu = time.perf_counter(), time.process_time()
        hits = [name for name, _ in ImpactSearcher(Path(index)).search(QUERY, 10)]
    return {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - cpu, "hits": hits}


def _opened(who: str, index: Path) -> dict[str, Any]:
    found = harness.child("tests.benchmarks.startup:first_hits", who=who, index=str(index))
    if found["hits"][0] != "d0":
        raise RuntimeError(f"{who} found {found['hits']}")
    return found


def _commands(folder: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """Indexes of a few documents by SpaDE, whose queries are bags of words, and by BM25; what searches them."""
    # Here, since the processes that are measured import this module too.
    from encoders.encoding import new_model, save_checkpoint
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
    words = [term for term in vector if term.isalpha()]  # that the document has for the untrained model
    text = " ".join([*documents[0].text.split(), *words])
    (folder / "topics.tsv").write_text(f"1\t{text}\n", encoding="utf-8")
    line = json.dumps({"contents": text, "vector": dict.fromkeys(words, 1)})
    (folder / "encoded.jsonl").write_text(line + "\n", encoding="utf-8")
    asked = ["--topics", str(folder / "topics.tsv"), "--output", str(folder / "run.txt")]
    ours, stock = ["learned_sparse.search"], ["learned_sparse.pyserini", "search.lucene"]
    encoder = ["--impact", "--encoder", str(folder / "encoded.jsonl"), "--min-idf", "-1"]
    return {
        "pyserini search.lucene --impact": partial(
            _command, [*stock, "--index", str(folder / "impacts"), *asked, *encoder]
        ),
        "learned_sparse.search, SpaDE": partial(_command, [*ours, "--index", str(folder / "impacts"), *asked]),
        "learned_sparse.search, BM25": partial(_command, [*ours, "--index", str(folder / "text"), *asked]),
    }


def _command(words: list[str]) -> dict[str, Any]:
    """One run of ``python -m ...``; its CPU seconds and memory are those of all its threads."""
    run = Path(words[words.index("--output") + 1])
    run.unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = [sys.executable, "-c", _MEASURED, *words]
    done = subprocess.run(command, cwd=harness.ROOT, capture_output=True, text=True, check=False)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or not run.read_text(encoding="utf-8"):
        raise RuntimeError(f"{words} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": took, "cpu_seconds": cpu, "peak_mb": float(done.stderr.rsplit(maxsplit=1)[-1])}


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
    """What each gives in each round; those of ``warm`` rounds that go before are left out."""
    measured: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    asking = {name: partial(lambda n, ask: measured[n].append(ask()), name, ask) for name, ask in contenders.items()}
    harness.interleave(asking, rounds, warm)
    return {name: found[warm:] for name, found in measured.items()}


def _row(what: str, who: str, measured: list[dict[str, Any]]) -> dict[str, Any]:
    numbers = {key: [round(found[key], 3) for found in measured] for key in ("seconds", "cpu_seconds", "peak_mb")}
    return {"what": what, "contender": who, **numbers}


def _ratios(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Against Pyserini, which comes first."""
    stock, *others = rows
    return {
        f"{stock['contender']} / {row['contender']}": round(harness.median_ratio(stock["seconds"], row["seconds"]), 2)
        for row in others
    }
