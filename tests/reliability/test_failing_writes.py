"""Writes that fail: one line says what and what to do, and nothing half-written stays at the final path."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reliability.commands import Case, Result, Server, World, everything, tree
from tests.reliability.killing import files, moment_problem
from tests.reliability.scale import FULL, record

COMMANDS = ["train", "encode", "prune"]
JAVA_COMMANDS = [pytest.param(name, marks=pytest.mark.jvm) for name in ("index", "search")]
MOMENTS = 20 if FULL else 2
"""Calls that fail, or moments at which the folder vanishes, for each command."""


def check(result: Result, case: Case, world: World, folder: Path, *, way_out: str) -> None:
    """The command ended with status 2 and one line that matches ``way_out``; or it was not hit and ended well."""
    assert not result.hung
    now, new = files(tree(folder / "out")), files(everything(world.result(case)))
    if result.status == 0:
        assert now == new, "reported success with another result"
        return
    errors = [line for line in result.output.splitlines() if line.startswith("error: ")]
    assert (result.status, len(errors)) == (2, 1), result.output
    assert "Traceback" not in result.output, result.output
    assert re.search(way_out, errors[0]), errors[0]
    problem = moment_problem(case, {}, new, now)
    assert not problem, f"{problem}\n{result.output}"
    left = [name for name in everything(folder / "out") if ".tmp" in name]
    assert not left, f"temporary files stay: {left}"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("name", [*COMMANDS, *JAVA_COMMANDS])
def test_a_file_that_grows_too_large(
    name: str, world: World, server: Server, work: Path, request: pytest.FixtureRequest
) -> None:
    case = getattr(world, name)()
    largest = max(map(len, everything(world.result(case)).values()))
    failed = 0
    for size in (1, largest // 2):
        (result,) = server.run(case.run(work, faults={"file_bytes": size}))
        check(result, case, world, work, way_out="free disk space")
        failed += result.status == 2
    assert failed
    record("failed write", case.name, failed, "one line, nothing half-written", request.node.nodeid)


@pytest.mark.parametrize("name", [*COMMANDS, *JAVA_COMMANDS])
def test_a_folder_without_write_permission(
    name: str, world: World, server: Server, work: Path, request: pytest.FixtureRequest
) -> None:
    case = getattr(world, name)()
    readable(world.folder)
    readable(work)
    (work / "out").mkdir(mode=0o555)
    (result,) = server.run(case.run(work, faults={"nobody": True}))
    assert result.status == 2, result.output
    check(result, case, world, work, way_out="permission")
    record("failed write", case.name, 1, "one line, nothing half-written", request.node.nodeid)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_disk_reports_an_error(
    name: str, world: World, server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case = getattr(world, name)()
    failed = 0
    for number in range(1, MOMENTS + 1):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        (result,) = server.run(case.run(folder, faults={"fsync": number}))
        check(result, case, world, folder, way_out="disk")
        failed += result.status == 2
    assert failed, "no write is followed by fsync"
    record("failed write", case.name, failed, "one line, nothing half-written", request.node.nodeid)


@pytest.mark.parametrize("name", [*COMMANDS, *JAVA_COMMANDS])
def test_the_folder_vanishes(
    name: str, world: World, server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case = getattr(world, name)()
    (tmp_path / "0").mkdir()
    (whole,) = server.run(case.run(tmp_path / "0"))
    for number in range(1, MOMENTS + 1):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        event = 1 + number * whole.events // (MOMENTS + 1)
        (result,) = server.run(case.run(folder, faults={"vanish": [event, "out"]}))
        if result.status:
            check(result, case, world, folder, way_out=r"removed|No such file.*--overwrite")
    record("failed write", case.name, MOMENTS, "one line, nothing half-written", request.node.nodeid)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB; needs the rights of root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], check=False).returncode
    ):
        pytest.skip("mounting a small file system needs the rights of root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("name", [*COMMANDS, pytest.param("index", marks=pytest.mark.jvm)])
def test_a_full_disk(
    name: str, world: World, server: Server, small_disk: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case = getattr(world, name)()
    world.result(case)
    failed = 0
    for free in (0, 4096, 16384, 65536):
        for path in small_disk.iterdir():
            subprocess.run(["rm", "-rf", path], check=True)
        (small_disk / "filling").write_bytes(
            b"x" * (os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize - free)
        )
        (tmp_path / "work").mkdir(exist_ok=True)
        link = tmp_path / "work" / "out"
        (small_disk / "out").mkdir()
        if not link.is_symlink():
            link.symlink_to(small_disk / "out")
        (result,) = server.run(case.run(tmp_path / "work"))
        check(result, case, world, tmp_path / "work", way_out="free disk space")
        failed += result.status == 2
    assert failed
    record("failed write", case.name, failed, "one line, nothing half-written", request.node.nodeid)


@pytest.mark.jvm
@pytest.mark.parametrize("name", ["index"])
def test_java_runs_out_of_memory(
    name: str, world: World, server: Server, work: Path, request: pytest.FixtureRequest
) -> None:
    case = getattr(world, name)()
    (result,) = server.run(case.run(work, "--heap", "4m"))
    assert result.status == 2, result.output
    check(result, case, world, work, way_out="--heap")
    record("failed write", case.name, 1, "one line, nothing half-written", request.node.nodeid)


@pytest.mark.parametrize("name", ["train", "encode"])
def test_python_runs_out_of_memory(
    name: str, world: World, server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case, failed = getattr(world, name)(), 0
    if name == "train":  # oneDNN in bf16 with AMX can crash when it gets no memory
        case = dataclasses.replace(case, name="train-fp32", arguments=(*case.arguments, "--set", "precision=fp32"))
    for megabytes in (16, 64):
        folder = tmp_path / str(megabytes)
        folder.mkdir()
        (result,) = server.run(case.run(folder, faults={"memory_bytes": megabytes * 2**20}))
        check(result, case, world, folder, way_out="")  # torch and transformers have words of their own for it
        failed += result.status == 2
    assert failed
    record("failed write", case.name, failed, "one line, nothing half-written", request.node.nodeid)


def readable(folder: Path) -> None:
    """Let any user read ``folder``, and pass through the folders above it."""
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode | 0o555 if path.is_dir() else 0o644)
    folder.chmod(0o777)
    for parent in folder.parents:
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o111)
