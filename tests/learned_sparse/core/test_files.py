"""Files and folders are whole or absent after errors, kills and full disks, and have one writer at a time."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, locked, new_file, new_folder, read_json, restore_folder

KILLED = """
import os, signal, sys
from learned_sparse.core.files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""

LIMITED = """
import resource, sys
from learned_sparse.core.errors import run_main
from learned_sparse.core.files import atomic_write
def main(argv):
    with atomic_write(sys.argv[1]) as file:
        file.write(b"x" * 10_000)  # less than the buffer and more than fits: the error comes from flush
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
run_main(main)
"""

HOLDER = """
import sys, time
from learned_sparse.core.files import locked
with locked(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file.txt"
    with atomic_write(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]


@pytest.mark.parametrize("before", [None, b"old"])
def test_an_error_keeps_the_earlier_file(tmp_path: Path, before: bytes | None) -> None:
    path = tmp_path / "file.txt"
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(ZeroDivisionError), atomic_write(path) as file:
        file.write(b"half")
        _ = 1 / 0
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == ([] if before is None else [before])


def test_a_kill_leaves_a_temporary_file_that_the_next_write_removes(tmp_path: Path, python: Any) -> None:
    path = tmp_path / "part-00000.jsonl"
    assert python("-c", KILLED, path).returncode == -9
    assert not path.exists()
    assert sorted(entry.suffix for entry in tmp_path.iterdir()) == [".lock", ".tmp"]  # Anserini reads .jsonl, .gz ...
    (tmp_path / ".other.txt.0123456789abcdef.tmp").touch()
    with atomic_write(path) as file:
        file.write(b"whole")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".other.txt.0123456789abcdef.tmp", path.name]


def test_a_folder_is_replaced_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "index"
    for content in ("old", "new"):
        with new_folder(path) as folder:
            (folder / "file").write_text(content)
    with pytest.raises(ZeroDivisionError), new_folder(path) as folder:
        (folder / "file").write_text("half")
        _ = 1 / 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["index"]
    assert (path / "file").read_text() == "new"


def test_a_file_that_does_not_fit(tmp_path: Path, python: Any) -> None:
    done = python("-c", LIMITED, tmp_path / "file.txt")
    assert done.stderr == f"error: {tmp_path}/file.txt: cannot be written (File too large); free disk space\n"
    assert done.returncode == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("new", [new_file, new_folder])
def test_the_first_of_two_writers_wins(tmp_path: Path, new: Any) -> None:
    path = tmp_path / "output"
    with new(path) as first:
        (first if new is new_file else first / "file").write_bytes(b"first")
        with pytest.raises(LearnedSparseError, match="output: another command writes here"), new(path):
            pass
        assert first.exists(), "the second writer has removed the work of the first"
    assert (path if new is new_file else path / "file").read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_replaced_behind_its_link(tmp_path: Path) -> None:
    (tmp_path / "disk" / "index").mkdir(parents=True)
    link = tmp_path / "index"
    link.symlink_to(tmp_path / "disk" / "index")
    with new_folder(link) as folder:
        assert folder.parent == tmp_path / "disk"
        (folder / "file").write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "disk" / "index" / "file").read_text() == "new"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "content.json: no such file; check the path"),
        (b'{\n"a": }', "content.json:2: not readable as JSON: Expecting value"),
        (b'"\xff"', "content.json: not readable as JSON: 'utf-8' codec can't decode byte 0xff"),
    ],
)
def test_unreadable_json(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "content.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LearnedSparseError) as error:
        read_json(path)
    assert str(error.value).startswith(f"{tmp_path}/{message}")


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


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(LearnedSparseError, match="vectors: another command writes here; wait"), locked(path):
            pass
        with locked(tmp_path / "vectors-shard-1-of-2"), locked(tmp_path / "vector"):  # other outputs are free
            pass
        process.kill()
        process.wait()
    assert (tmp_path / ".vectors.lock").is_file()
    with locked(tmp_path / "nothing" / ".." / "vectors"):
        pass
    assert list(tmp_path.iterdir()) == []


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
    with locked(tmp_path / "mounted") as lock:
        assert not lock
    assert "mounted: not locked (" in caplog.text
    assert "make sure that no other command writes there" in caplog.text
