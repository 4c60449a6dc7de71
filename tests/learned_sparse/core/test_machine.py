"""Processors and memory follow the limits of control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from learned_sparse.core import memory, processors

GIGABYTE = 2**30


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 64 processors and 64 GB."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16 * 2**20}.__getitem__)


def group(root: Path, lines: str, **files: str) -> Path:
    """A file system with control groups; ``files``: contents by path below /sys/fs/cgroup, with ``__`` for ``/``."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines, encoding="utf-8")
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n", encoding="ascii")
    return root


def test_without_control_groups(tmp_path: Path) -> None:
    assert processors(tmp_path) == 64
    assert memory(tmp_path) == 64 * GIGABYTE


def test_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5})
    assert processors(tmp_path) == 2


def test_without_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS and Windows."""
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert processors(tmp_path) == 6


def test_a_container_of_version_2(tmp_path: Path) -> None:
    root = group(tmp_path, "0::/\n", cpu_dot_max="250000 100000", memory_dot_max=str(4 * GIGABYTE))
    assert processors(root) == 3  # 2.5, rounded up
    assert memory(root) == 4 * GIGABYTE


def test_version_2_without_limits(tmp_path: Path) -> None:
    root = group(tmp_path, "0::/\n", cpu_dot_max="max 100000", memory_dot_max="max")
    assert processors(root) == 64
    assert memory(root) == 64 * GIGABYTE


def test_the_limit_of_an_ancestor_counts(tmp_path: Path) -> None:
    root = group(
        tmp_path,
        "0::/jobs/job7/step0\n",
        jobs__job7__cpu_dot_max="400000 100000",
        jobs__job7__step0__cpu_dot_max="max 100000",
        jobs__memory_dot_max=str(8 * GIGABYTE),
        jobs__job7__memory_dot_max=str(6 * GIGABYTE),
    )
    assert processors(root) == 4
    assert memory(root) == 6 * GIGABYTE


def test_a_container_of_version_1(tmp_path: Path) -> None:
    """The paths of the host do not exist in the container; its own group is mounted as the root."""
    root = group(
        tmp_path,
        "5:memory:/docker/1a2b\n4:cpu,cpuacct:/docker/1a2b\n1:name=systemd:/docker/1a2b\n",
        cpu__cpu_dot_cfs_quota_us="50000",
        cpu__cpu_dot_cfs_period_us="100000",
        memory__memory_dot_limit_in_bytes=str(2 * GIGABYTE),
    )
    assert processors(root) == 1
    assert memory(root) == 2 * GIGABYTE


def test_version_1_without_limits(tmp_path: Path) -> None:
    root = group(
        tmp_path,
        "5:memory:/\n4:cpu,cpuacct:/\n",
        cpu__cpu_dot_cfs_quota_us="-1",
        cpu__cpu_dot_cfs_period_us="100000",
        memory__memory_dot_limit_in_bytes="9223372036854771712",
    )
    assert processors(root) == 64
    assert memory(root) == 64 * GIGABYTE
