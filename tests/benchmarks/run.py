"""``python -m tests.benchmarks.run``: run benchmarks and write one JSON file each; what all of them measure with."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from eval.reproduce.steps import provenance
from learned_sparse.core.errors import run_main
from learned_sparse.core.files import write_json
from learned_sparse.lucene.jvm import find_java

FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8")
"""Processor instructions that matter for matrix products."""
BENCHMARKS = ("encoding", "head", "memory", "training", "indexing", "searching")
"""Modules with ``run(toy)``, which returns ``sizes`` and ``rows``, in the order of the report."""
PACKAGES = ("torch", "transformers", "sentence-transformers", "pyserini", "pyseismic-lsr")
RESULTS = Path(__file__).parent / "results"


def main(argv: list[str] | None = None) -> int:
    """Run the named benchmarks one after the other, each in its own process."""
    about = "Measure this package beside other installed toolkits. Run nothing else meanwhile."
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.run", description=about)
    parser.add_argument("names", nargs="*", choices=(*BENCHMARKS, "all"), default="all", help="default: all")
    parser.add_argument("--toy", action="store_true", help="seconds instead of minutes, only to check that it works")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR", help="of NAME.json; default: results/")
    options = parser.parse_args(argv)
    os.environ.update(HF_HUB_OFFLINE="1", TQDM_DISABLE="1", TRANSFORMERS_VERBOSITY="error")
    for name in BENCHMARKS if "all" in options.names else options.names:
        print(f"{name} ...", flush=True)
        result = child(measured, name=name, toy=options.toy)
        path = options.output / f"{name}.json"
        write_json(path, result)
        print(f"{path}: written after {result['seconds']:.0f} s", flush=True)
    return 0


def measured(name: str, toy: bool) -> dict[str, Any]:
    """Result of one benchmark, with facts about the machine."""
    machine, start = environment(), time.perf_counter()
    result = importlib.import_module(f"tests.benchmarks.{name}").run(toy)
    return {
        **result, "benchmark": name, "toy": toy, "seconds": round(time.perf_counter() - start, 1),
        "environment": machine, "versions": versions(),
    }  # fmt: skip


def interleave(contenders: Mapping[str, Callable[[], object]], rounds: int, warm: int = 1) -> dict[str, list[float]]:
    """Seconds of each contender in each round, after ``warm`` uncounted rounds.

    Each contender runs once per round. The first contender changes from round to round, so noise affects all.
    """
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-warm, rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            start_time = time.perf_counter()
            contenders[name]()
            elapsed = time.perf_counter() - start_time
            if turn >= 0:
                seconds[name].append(round(elapsed, 4))
    return seconds


def child(function: Callable[..., dict[str, Any]], **arguments: Any) -> dict[str, Any]:
    """Result of a function of a module in a fresh process, with ``peak_mb`` and ``cpu_seconds`` added."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_measured, function, arguments).result()


def _measured(function: Callable[..., dict[str, Any]], arguments: dict[str, Any]) -> dict[str, Any]:
    result = function(**arguments)
    return {**result, "peak_mb": round(memory_mb(), 1), "cpu_seconds": round(time.process_time(), 2)}


def versions() -> dict[str, str]:
    """Versions of the installed ``PACKAGES``."""
    return {each.name: each.version for each in importlib.metadata.distributions() if each.name in PACKAGES}


def memory_mb(field: str = "VmHWM") -> float:
    """Memory of this process in megabytes (10**6 bytes): peak (VmHWM) or current (VmRSS) resident memory of Linux."""
    status = Path("/proc/self/status").read_text("ascii")  # ru_maxrss includes the parent's memory before exec
    line = next(line for line in status.splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) * 1024 / 1e6


def environment() -> dict[str, Any]:
    """The machine; ``load_before`` shows whether other programs were running."""
    known = Path("/proc/cpuinfo").read_text("utf-8").split()
    return {
        "python": platform.python_version(),
        "cpu": provenance()["processor"],
        "cores": os.cpu_count(),
        "flags": [flag for flag in FLAGS if flag in known],
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "java": find_java().version,
    }


if __name__ == "__main__":
    run_main(main)
