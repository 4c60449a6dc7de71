"""Writes that fail: one line says what and what to do, and nothing half-written stays at the final path."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reliability.commands import Case, Tree, World, everything, is_temporary
from tests.reliability.processes import Result, run_one
from tests.reliability.scale import FULL

PYTHON, JAVA = ("train", "encode", "prune"), ("index", "search")
Faults = Callable[[Tree], list[dict[str, int]]]
"""From the files of an undisturbed run to ``faults`` of ``Run``."""
FAULTS: dict[str, tuple[tuple[str, ...], str, Faults]] = {
    "a file grows too large": (
        (*PYTHON, *JAVA), "free disk space",
        lambda files: [{"file_bytes": size} for size in (1, max(map(len, files.values())) // 2)],
    ),
    "the disk reports an error": (
        PYTHON, "disk", lambda _: [{"fsync": number} for number in range(1, 9 if FULL else 3)],
    ),
    # torch and transformers have words of their own for it
    "no memory": (PYTHON[:2], "", lambda _: [{"memory_bytes": megabytes * 2**20} for megabytes in (16, 64)]),
}  # fmt: skip
"""Commands, what the line says, and the faults."""
TRIED = [
    pytest.param(fault, name, marks=[pytest.mark.jvm] if name in JAVA else [])
    for fault, (names, *_) in FAULTS.items()
    for name in names
]


def fails(result: Result, case: Case, whole: Tree, folder: Path, way_out: str) -> bool:
    """Whether the command ended with one line that matches ``way_out``; else it was not hit and ended well."""
    now = everything(folder / "out")
    if result.status == 0:
        assert now == whole, "reported success with another result"
        return False
    assert re.search(way_out, result.error()), result.output
    problem = case.moment_problem({}, whole, {name: now[name] for name in now if not is_temporary(name)})
    assert not problem, f"{problem}\n{result.output}"
    assert not [name for name in now if ".tmp" in name], f"temporary files stay: {sorted(now)}"
    return True


@pytest.mark.parametrize(("fault", "name"), TRIED)
def test_a_write_fails(fault: str, name: str, world: World, tmp_path: Path) -> None:
    _, way_out, make = FAULTS[fault]
    case = world.case(name)
    if (fault, name) == ("no memory", "train"):  # oneDNN in bf16 with AMX can crash when it gets no memory
        case = dataclasses.replace(case, name="train-fp32", command=f"{case.command} --set precision=fp32")
    whole, failed = everything(world.result(case)), 0
    for number, faults in enumerate(make(whole)):
        folder = tmp_path / str(number)
        folder.mkdir()
        failed += fails(run_one(case.run(folder, faults=faults)), case, whole, folder, way_out)
    assert failed


@pytest.mark.jvm
def test_java_runs_out_of_memory(world: World, tmp_path: Path) -> None:
    case, whole = world.case("index"), everything(world["index"])
    assert fails(run_one(case.run(tmp_path, "--heap 4m")), case, whole, tmp_path, "--heap")
