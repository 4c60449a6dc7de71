"""Measuring: contenders in turn, ratios of medians, fresh processes, facts about the machine."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from learned_sparse.core.files import read_json, write_json
from learned_sparse.lucene.jvm import find_java

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16", "amx_int8")
"""Processor instructions that matter for matrix products."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "TOKENIZERS_PARALLELISM")


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

    Arguments and result are JSON. Output of the process goes to standard error, and into the error if the process
    fails. Progress bars and downloads are off.
    """
    with tempfile.TemporaryDirectory() as folder:
        result_file = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "tests.benchmarks.harness", target, json.dumps(arguments), str(result_file)]
        done = subprocess.run(command, cwd=ROOT, env=quiet_environment(), check=False, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{target} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        sys.stderr.write(done.stdout + done.stderr)
        result: dict[str, Any] = read_json(result_file)
    return result


def quiet_environment() -> dict[str, str]:
    """Environment of a measured process: no progress bars, no downloads."""
    return {**os.environ, "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}


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


def main(argv: list[str] | None = None) -> int:
    """Call the function that ``child`` names and write its result."""
    target, arguments, file = sys.argv[1:] if argv is None else argv
    module, _, function = target.partition(":")
    result = getattr(importlib.import_module(module), function)(**json.loads(arguments))
    write_json(file, {**result, "peak_mb": round(memory_mb(), 1)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
