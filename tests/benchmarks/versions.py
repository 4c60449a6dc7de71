"""``python -m tests.benchmarks.versions --before DIR``: two checkouts of this project in turn, by the same commands."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from learned_sparse.core import write_json
from tests.benchmarks import harness, run
from tests.benchmarks.encoding import write_corpus
from tests.benchmarks.searching import vectors, write_vectors
from tests.benchmarks.shapes import SMALL, TINY

RESULT = run.RESULTS / "versions.json"
SIDES = ("before", "after")
NOISE = 1.10
"""Ratio of medians up to which two times count as equal."""
_INDEX = """
import sys, time
from pathlib import Path
vectors, index = map(Path, sys.argv[1:])
try:
    from learned_sparse.index_vectors import build_index, plain_files  # before the packages
except ImportError:
    from learned_sparse.index import build_index, plain_files
began = time.perf_counter()
build_index(plain_files([vectors]), index, overwrite=True)
print(time.perf_counter() - began)
"""
_SEARCH = """
import json, sys, time
from pathlib import Path
from learned_sparse.lucene import ImpactSearcher
index, file = sys.argv[1:]
queries = json.loads(Path(file).read_text())
with ImpactSearcher(Path(index)) as searcher:
    searcher.search_batch(dict(list(queries.items())[:10]), 1000, 1)
    began = time.perf_counter()
    searcher.search_batch(queries, 1000, 1)
    print(time.perf_counter() - began)
"""
"""Runs on both sides: both export ``ImpactSearcher`` from ``learned_sparse.lucene``."""
_FIRST_HIT = """
import sys, time
from pathlib import Path
began = time.perf_counter()
from learned_sparse.lucene import ImpactSearcher
with ImpactSearcher(Path(sys.argv[1])) as searcher:
    searcher.search({"t7": 3}, 10)
print(time.perf_counter() - began)
"""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Amount of work in one round."""

    passages: int
    documents: int
    queries: int
    steps: int
    rounds: int


REAL = Sizes(passages=384, documents=20_000, queries=200, steps=8, rounds=3)
TOY = Sizes(passages=8, documents=50, queries=3, steps=1, rounds=1)


def main(argv: list[str] | None = None) -> int:
    """Measure, and write the result as JSON and as a table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.versions",
        description="Measure another checkout of this project beside this one. Run nothing else meanwhile.",
    )
    parser.add_argument("--before", type=Path, required=True, metavar="DIR", help="checkout to compare with")
    parser.add_argument("--toy", action="store_true", help="seconds instead of minutes, for tests of this program")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE", help="default: results/versions.json")
    options = parser.parse_args(argv)
    result = measure(options.before, harness.ROOT, TOY if options.toy else REAL, toy=options.toy)
    write_json(options.output, result)
    print(markdown(result))
    return 0


def measure(before: Path, after: Path, sizes: Sizes, *, toy: bool) -> dict[str, Any]:
    """Seconds of each task on both sides; every round runs each task on both, in alternating order."""
    sides = dict(zip(SIDES, (before.resolve(), after.resolve()), strict=True))
    machine = harness.environment()
    with tempfile.TemporaryDirectory() as folder:
        tasks = _tasks(Path(folder), sizes, toy=toy)
        seconds: dict[str, dict[str, list[float]]] = {name: {side: [] for side in SIDES} for name in tasks}
        for number in range(-1, sizes.rounds):  # the first round is a warm-up
            for name, task in tasks.items():
                for side in SIDES if number % 2 else SIDES[::-1]:
                    elapsed = task(sides[side], Path(folder) / side)
                    print(f"round {number}: {name}, {side}: {elapsed:.2f} s", flush=True)
                    if number >= 0:
                        seconds[name][side].append(round(elapsed, 4))
    return {
        "sizes": {name: getattr(sizes, name) for name in Sizes.__dataclass_fields__},
        "commits": {side: _commit(checkout) for side, checkout in sides.items()},
        "rows": [{"task": name, **times} for name, times in seconds.items()],
        "ratios": {
            name: round(statistics.median(times["after"]) / statistics.median(times["before"]), 3)
            for name, times in seconds.items()
        },
        "toy": toy,
        "environment": machine,
        "versions": harness.installed(*run.PACKAGES),
    }


def markdown(result: Mapping[str, Any]) -> str:
    """One line per task."""
    sizes, commits = result["sizes"], result["commits"]
    heading = f"Before: {commits['before']}; after: {commits['after']}. Medians of {sizes['rounds']} rounds in turn"
    lines = [
        f"{heading}; a ratio up to {NOISE:g} counts as equal.",
        "",
        "| task | before, s | after, s | after / before |",
        "|---|---:|---:|---:|",
    ]
    for row in result["rows"]:
        before, after = (statistics.median(row[side]) for side in SIDES)
        lines.append(f"| {row['task']} | {before:.2f} | {after:.2f} | {result['ratios'][row['task']]:.2f} |")
    return "\n".join(lines)


def _tasks(folder: Path, sizes: Sizes, *, toy: bool) -> dict[str, Callable[[Path, Path], float]]:
    """All tasks, after their inputs are written; each task takes a checkout and a work folder."""
    shape = TINY if toy else SMALL
    texts = shape.passages(sizes.passages)
    model = shape.save(folder / "model", texts[:16])
    corpus, single = write_corpus(folder / "corpus.jsonl", texts), write_corpus(folder / "one.jsonl", texts[:1])
    files = write_vectors(folder / "vectors", sizes.documents, 120)
    queries = {f"q{number}": vector for number, vector in enumerate(vectors(sizes.queries, 20, 1))}
    write_json(folder / "queries.json", queries)
    encode = ["-m", "learned_sparse.encode", "--model", "m", "--checkpoint", str(model), "--overwrite"]
    encode += ["--device", "cpu"]
    encode += ["--dtype", "fp32", "--quantization-factor", "51.2", "--max-length", str(shape.max_length)]
    train = ["-m", "encoders.train", "--recipe", "demo-splade", "--overwrite", "--quiet", "--device", "cpu"]
    train += ["--set", f"stages.0.steps={sizes.steps}", "--set", "stages.0.warm_up_steps=1"]

    def encoded(input_file: Path, checkout: Path, work: Path) -> float:
        return _seconds(checkout, work, [*encode, "--input", input_file, "--output", work / "encoded"])

    def indexed(checkout: Path, work: Path) -> float:
        return _printed(checkout, work, ["-c", _INDEX, files, work / "index"])

    def searched(checkout: Path, work: Path) -> float:
        return _printed(checkout, work, ["-c", _SEARCH, work / "index", folder / "queries.json"])

    def first_hit(checkout: Path, work: Path) -> float:
        return _printed(checkout, work, ["-c", _FIRST_HIT, work / "index"])

    def help_shown(checkout: Path, work: Path) -> float:
        return _seconds(checkout, work, ["-m", "learned_sparse.encode", "--help"])

    tasks: dict[str, Callable[[Path, Path], float]] = {
        f"encode {sizes.passages} passages ({shape.name}, fp32)": partial(encoded, corpus),
        "encode one passage": partial(encoded, single),
        f"index {sizes.documents:,} vectors": indexed,
        f"search {sizes.queries} queries, 1,000 hits": searched,
        "first hit, imports and Java included": first_hit,
        "encode --help": help_shown,
    }
    if not toy:  # the demo's recipe is too large for a toy run
        tasks[f"train {sizes.steps} steps (recipe demo-splade)"] = lambda checkout, work: _seconds(
            checkout, work, [*train, "--output", work / "trained"]
        )
    return tasks


def _seconds(checkout: Path, work: Path, arguments: Sequence[str | Path]) -> float:
    start = time.perf_counter()
    _run(checkout, work, arguments)
    return time.perf_counter() - start


def _printed(checkout: Path, work: Path, arguments: Sequence[str | Path]) -> float:
    """The seconds that a program prints on its last line."""
    return float(_run(checkout, work, arguments).split()[-1])


def _run(checkout: Path, work: Path, arguments: Sequence[str | Path]) -> str:
    environment = {
        **os.environ, "PYTHONPATH": str(checkout), "LEARNED_SPARSE_HOME": str(work / "home"), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{checkout}: {command} ended with {done.returncode}:\n{done.stderr[-4000:]}")
    return done.stdout


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
