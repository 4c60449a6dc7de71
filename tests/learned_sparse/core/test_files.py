"""Files and folders are whole or absent after errors, kills and full disks, and have one writer at a time."""

from __future__ import annotations

import errno
import itertools
import resource
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import locked, new_file, new_folder, read_json, restore_folder
from learned_sparse.core.yaml_files import read_yaml

KILLED = """
import os, signal, sys
from learned_sparse.core.files import new_file
with new_file(sys.argv[1]) as temporary, temporary.open("wb") as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("before", [None, b"old"])
def test_a_file_is_whole_or_as_before(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / "new" / "file.txt"
    if before is not None:
        path.parent.mkdir()
        path.write_bytes(before)
    with pytest.raises(ZeroDivisionError), new_file(path) as temporary:
        temporary.write_bytes(b"half")
        _ = 1 / 0
    assert [entry.read_bytes() for entry in path.parent.iterdir()] == ([] if before is None else [before])
    with new_file(path) as temporary:
        temporary.write_bytes(b"whole")
        assert path.exists() == (before is not None)
    assert [entry.read_bytes() for entry in path.parent.iterdir()] == [b"whole"]


def test_a_kill_leaves_a_temporary_file_that_the_next_write_removes(tmp_path: Path, python: Any) -> None:
    path = tmp_path / "part-00000.jsonl"
    assert python("-c", KILLED, path).returncode == -9
    assert not path.exists()
    assert sorted(entry.suffix for entry in tmp_path.iterdir()) == [".lock", ".tmp"]  # Anserini reads .jsonl, .gz ...
    (tmp_path / ".other.txt.0123456789abcdef.tmp").touch()
    with new_file(path) as temporary:
        temporary.write_bytes(b"whole")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".other.txt.0123456789abcdef.tmp", path.name]


@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_is_replaced_or_stays_behind_its_link_too(tmp_path: Path, linked: bool) -> None:
    path = named = tmp_path / "disk" / "index"
    if linked:
        path.mkdir(parents=True)
        named = tmp_path / "link"
        named.symlink_to(path)
    for content in ("old", "new"):
        with new_folder(named) as folder:
            assert folder.parent == path.parent
            (folder / "file").write_text(content)
    with pytest.raises(ZeroDivisionError), new_folder(named) as folder:
        (folder / "file").write_text("half")
        _ = 1 / 0
    assert [entry.name for entry in path.parent.iterdir()] == ["index"]
    assert ((path / "file").read_text(), named.is_symlink()) == ("new", linked)


def test_a_file_that_does_not_fit(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(LearnedSparseError, match=r"cannot be written \(File too large\); free disk space"):
            with new_file(tmp_path / "file.txt") as temporary, temporary.open("wb") as file:
                file.write(b"x" * 10_000)  # less than the buffer and more than fits: the error comes from flush
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("new", [new_file, new_folder])
def test_the_first_of_two_writers_wins(tmp_path: Path, new: Any) -> None:
    path = tmp_path / "output"
    with new(path) as first:
        (first if new is new_file else first / "file").write_bytes(b"first")
        with pytest.raises(LearnedSparseError, match="output: another command writes here"), new(path):
            pass
        with locked(tmp_path / "output-shard-1-of-2"), pytest.raises(LearnedSparseError, match="writes here"):
            with locked(tmp_path / "nothing" / ".." / "output"):
                pass
        assert first.exists(), "the second writer has removed the work of the first"
    assert (path if new is new_file else path / "file").read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (read_json, None, ": no such file; check the path"),
        (read_json, b'{\n"a": }', ":2: not readable as JSON: Expecting value"),
        (read_json, b'"\xff"', ": not readable as JSON: 'utf-8' codec can't decode byte 0xff"),
        (read_yaml, b"a: [", ": not readable as YAML"),
        (read_yaml, b"\xff", ": cannot be read"),
        (read_yaml, b"- 1", ": expected a mapping of settings, got [1]"),
    ],
)
def test_unreadable_files(tmp_path: Path, read: Callable[[Path], object], content: bytes | None, message: str) -> None:
    path = tmp_path / "content"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LearnedSparseError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}{message}")


def test_a_folder_that_a_killed_writer_has_moved_aside_is_restored(tmp_path: Path) -> None:
    path, aside = tmp_path / "index", tmp_path / ".index.replaced"
    aside.mkdir()
    (aside / "file").write_text("old")
    with locked(path):  # its writer is alive
        restore_folder(path)
        assert not path.exists()
    restore_folder(path)
    assert (path / "file").read_text() == "old"
    aside.mkdir()  # killed after the new folder had its name
    with new_folder(path) as folder:
        (folder / "file").write_text("new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]
    assert (path / "file").read_text() == "new"


def test_threads_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    """Each thread increments a number 50 times; without a lock, increments are lost."""
    path = tmp_path / "count"
    path.write_text("0")

    def count() -> None:
        for _ in range(50):
            with locked(path, wait=True):
                path.write_text(str(int(path.read_text()) + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "200"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("module", ["fcntl.flock", "os.open"])
def test_a_folder_that_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, module: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EACCES if module == "os.open" else errno.ENOLCK, "refused")

    (tmp_path / "mounted").mkdir()
    monkeypatch.setattr(module, refuse)
    monkeypatch.setattr("learned_sparse.core.files._not_locked", itertools.count())
    for _ in range(2):
        with locked(tmp_path / "mounted") as lock:
            assert not lock
    (warning,) = caplog.messages
    assert "mounted: not locked (" in warning
