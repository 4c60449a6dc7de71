"""Processors and memory of this process in and outside containers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from learned_sparse.core import machine


@pytest.mark.parametrize(
    ("cpu", "memory", "processors", "available"),
    [
        ("max 100000", "max", 3, None),
        ("150000 100000", "1000000", 2, 10**6),
        ("400000 100000", "max", 3, None),
        (None, None, 3, None),
    ],
)
def test_limits_of_a_container(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cpu: str | None,
    memory: str | None,
    processors: int,
    available: int | None,
) -> None:
    monkeypatch.setattr(machine, "_LIMITS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 5}, raising=False)
    for name, text in (("cpu.max", cpu), ("memory.max", memory)):
        if text is not None:
            (tmp_path / name).write_text(text + "\n")
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert (machine.processors(), machine.memory()) == (processors, available or whole)
