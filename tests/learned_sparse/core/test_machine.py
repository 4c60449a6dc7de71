"""Processors and memory of this process in and outside containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from learned_sparse.core import machine


def test_limits_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_LIMITS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert (machine.processors(), machine.memory()) == (3, whole)
    for cpu, memory, expected in (
        ("max 100000", "max", (3, whole)), ("150000 100000", "1000000", (2, 10**6)), ("400000 1000", "max", (3, whole)),
    ):  # fmt: skip
        (tmp_path / "cpu.max").write_text(f"{cpu}\n")
        (tmp_path / "memory.max").write_text(f"{memory}\n")
        assert (machine.processors(), machine.memory()) == expected
