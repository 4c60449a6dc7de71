"""Processors and memory that this process may use: a container may have less than its machine."""

from __future__ import annotations

import math
import os
from pathlib import Path

_LIMITS = Path("/sys/fs/cgroup")
"""Limits of this container (control groups, version 2)."""


def processors() -> int:
    """Processors for the threads of this process: its affinity, and the quota of its container rounded up."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _limit("cpu.max")
    return max(1, min(count, math.ceil(quota[0] / quota[1]))) if len(quota) == 2 else count


def memory() -> int:
    """Memory in bytes: that of the machine, or of the container if it has less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limit("memory.max")])


def _limit(name: str) -> list[int]:
    """Numbers of a limit; none without one."""
    try:
        words = (_LIMITS / name).read_text(encoding="ascii").split()
    except OSError:
        return []
    return [int(word) for word in words] if words and words[0] != "max" else []
