"""Writes that fail: one line says what and what to do, and nothing half-written stays at the final path."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.commands import Case, Result, Server, Tree, World, everything, is_temporary
from tests.reliability.scale import FULL

PYTHON, JAVA = ("train", "encode", "prune"), ("index", "search")
MOMENTS = range(1, 9 if FULL else 3)
Faults = Callable[[Result, Tree], list[Any]]
"""From an undisturbed run and its files to ``faults`` of ``Run``, or to what a test below takes."""
FAULTS: dict[str, tuple[tuple[str, ...], str, Faults]] = {
    "a file grows too large": (
        (*PYTHON, *JAVA), "free disk space",
        lambda _, files: [{"file_bytes": size} for size in (1, max(map(len, files.values())) // 2)],
    ),
    "the disk reports an error": (PYTHON, "disk", lambda *_: [{"fsync": number} for number in MOMENTS]),
    "the folder vanishes": (
        (*PYTHON, *JAVA), r"removed|No such file.*--overwrite",
        lambda whole, _: [{"vanish": [1 + number * whole.events // (len(MOMENTS) + 1), "out"]} for number in MOMENTS],
    ),
    "no permission": ((*PYTHON, *JAVA), "permission", lambda *_: [{"nobody": True}]),
    # torch and transformers have words of their own for it
    "no memory": (PYTHON[:2], "", lambda *_: [{"memory_bytes": megabytes * 2**20} for megabytes in (16, 64)]),
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
        files = {name: content for name, content in now.items() if not name.endswith("/")}
        assert files == whole, "reported success with another result"
        return False
    assert re.search(way_out, result.error()), result.output
    problem = case.moment_problem({}, whole, {name: now[name] for name in now if not is_temporary(name)})
    assert not problem, f"{problem}\n{result.output}"
    assert not [name for name in now if ".tmp" in name], f"temporary files stay: {sorted(now)}"
    return True


@pytest.mark.parametrize(("fault", "name"), TRIED)
def test_a_write_fails(fault: str, name: str, world: World, server: Server, tmp_path: Path) -> None:
    _, way_out, make = FAULTS[fault]
    case: Case = getattr(world, name)()
    if (fault, name) == ("no memory", "train"):  # oneDNN in bf16 with AMX can crash when it gets no memory
        case = dataclasses.replace(case, name="train-fp32", command=f"{case.command} --set precision=fp32")
    whole, failed = everything(world.result(case)), 0
    for number, faults in enumerate(make(world.undisturbed(case), whole)):
        folder = tmp_path / str(number)
        folder.mkdir()
        if "nobody" in faults:
            (folder / "out").mkdir(mode=0o555)
            for path in (world.folder, folder):
                readable(path)
        (result,) = server.run(case.run(folder, faults=faults))
        if result.status or "vanish" not in faults:  # files that vanish before the last one is written may stay away
            failed += fails(result, case, whole, folder, way_out)
    assert failed or fault == "the folder vanishes"


def readable(folder: Path) -> None:
    """Let any user read ``folder``, and pass through the folders above it."""
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode | 0o555 if path.is_dir() else 0o644)
    folder.chmod(0o777)
    for parent in folder.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o111)


@pytest.mark.parametrize("name", [*PYTHON, pytest.param("index", marks=pytest.mark.jvm)])
def test_a_full_disk(name: str, world: World, server: Server, tmp_path: Path) -> None:
    """File systems of 256 kB with little space; mounting them needs the rights of root."""
    case: Case = getattr(world, name)()
    whole, failed = everything(world.result(case)), 0
    for free in (0, 4096, 16384, 65536) if FULL else (0, 16384):
        folder = tmp_path / str(free)
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
        if os.geteuid() or subprocess.run(mount, check=False).returncode:
            pytest.skip("mounting a small file system needs the rights of root")
        try:
            (folder / "out").mkdir()
            space = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
            (folder / "filling").write_bytes(b"x" * (space - free))
            (result,) = server.run(case.run(folder))
            failed += fails(result, case, whole, folder, "free disk space")
        finally:
            subprocess.run(["umount", "-l", folder], check=True)
    assert failed


@pytest.mark.jvm
def test_java_runs_out_of_memory(world: World, server: Server, tmp_path: Path) -> None:
    (result,) = server.run(world.index().run(tmp_path, "--heap 4m"))
    assert fails(result, world.index(), everything(world.result(world.index())), tmp_path, "--heap")
