"""Processors and memory that this process may use: a container may have less than its machine."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def processors(root: Path = _ROOT) -> int:
    """Processors for the threads of this process: its affinity and the quota of its control groups, rounded up."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([count, *(math.ceil(quota) for quota in _quotas(root))]))


def memory(root: Path = _ROOT) -> int | None:
    """Memory in bytes: that of the machine, or the smallest limit of the control groups; None if it is unknown."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):  # not on Windows
        return None
    limits = [
        *(_numbers(folder / "memory.max") for folder in _groups(root, "")),
        *(_numbers(folder / "memory.limit_in_bytes") for folder in _groups(root, "memory")),
    ]
    return min([machine, *(limit[0] for limit in limits if limit)])


def _quotas(root: Path) -> Iterator[float]:
    """Processors of each control group that has a quota."""
    for folder in _groups(root, ""):
        if len(limit := _numbers(folder / "cpu.max")) == 2:
            yield limit[0] / limit[1]
    for folder in _groups(root, "cpu"):
        quota, period = _numbers(folder / "cpu.cfs_quota_us"), _numbers(folder / "cpu.cfs_period_us")
        if quota and period and quota[0] > 0:  # -1: no quota
            yield quota[0] / period[0]


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's control group and its ancestors; ``controller``: of version 1, empty for version 2.

    Inside a container the paths of the host do not exist; the container's own group is the root then.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, _, names_and_path = line.partition(":")  # 0::/user.slice: version 2; 4:cpu,cpuacct:/docker/1a2b: version 1
        names, _, path = names_and_path.partition(":")
        if controller in names.split(","):
            top = root / "sys/fs/cgroup" / controller
            group = top / path.lstrip("/")
            yield group
            if group != top:
                yield from (ancestor for ancestor in group.parents if ancestor.is_relative_to(top))


def _numbers(file: Path) -> list[int]:
    """The numbers in ``file``; none if it is missing or has a word such as ``max`` first."""
    try:
        words = file.read_text(encoding="ascii").split()
    except OSError:
        return []
    return [int(word) for word in words] if words and words[0].lstrip("-").isdigit() else []
