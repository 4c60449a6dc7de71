"""One writer at a time; a lock ends with its owner."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core import LearnedSparseError, locked
from learned_sparse.core import locks as locks_module

HOLDER = """
import sys, time
from learned_sparse.core import locked
with locked(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(60)
"""


def hold(path: Path) -> subprocess.Popen[str]:
    """A process that holds the lock of ``path``."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "vectors"
    with hold(path) as process:
        message = (
            rf"vectors: process {process.pid} on \S+ \(since 20..-..-.. ..:..:..\) writes here; wait until it ends"
        )
        with pytest.raises(LearnedSparseError, match=message), locked(path):
            pass
        with locked(tmp_path / "vectors-shard-1-of-2"), locked(tmp_path / "vector"):  # other outputs are free
            pass
        process.kill()
        process.wait()
    assert (tmp_path / ".vectors.lock").is_file()
    with locked(tmp_path / "nothing" / ".." / "vectors"):
        pass
    assert list(tmp_path.iterdir()) == []


STARTS = """
import os, subprocess, sys, time
from learned_sparse.core import lock_descriptors, locked
with locked(sys.argv[1]):
    child = subprocess.Popen(["sleep", "60"], pass_fds=lock_descriptors())
    print(child.pid, flush=True)
    time.sleep(60)
"""


def test_a_process_that_has_the_locks_keeps_them_when_its_parent_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    with subprocess.Popen([sys.executable, "-c", STARTS, str(path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    try:
        with pytest.raises(LearnedSparseError, match="writes here; wait until it ends"), locked(path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
    for _ in range(100):
        with suppress(LearnedSparseError), locked(path):
            return
        time.sleep(0.1)
    pytest.fail("still locked")


def test_files_in_a_locked_folder_have_no_locks_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    folder.mkdir()
    with locked(folder), locked(folder / "progress" / "part-00000.json"):
        assert [path.name for path in tmp_path.rglob("*.lock")] == [".vectors.lock"]
    with locked(folder / "part"):
        assert [path.name for path in tmp_path.rglob("*.lock")] == [".part.lock"]


def test_threads_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    """Each thread increments a number 50 times; without a lock, increments are lost."""
    path = tmp_path / "count"
    path.write_text("0")
    at_once: list[int] = []

    def count() -> None:
        for _ in range(50):
            with locked(path, wait=True):
                at_once.append(1)
                path.write_text(str(int(path.read_text()) + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "200"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    locks_module._warn_once.cache_clear()
    for _ in range(2):
        with locked(tmp_path / "output") as lock:
            assert lock is None
    (message,) = caplog.messages
    assert message.startswith(f"outputs cannot be locked ({tmp_path}/.output.lock: {os.strerror(number)}); make sure")


def test_the_folder_above_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "mounted").mkdir()
    monkeypatch.setattr(os, "open", refuse)
    locks_module._warn_once.cache_clear()
    with locked(tmp_path / "mounted") as lock:
        assert lock is None
    assert "Permission denied" in caplog.text


def test_a_lock_file_that_was_replaced_stays(tmp_path: Path, python: Any) -> None:
    """Somebody removes the lock file, and another process locks the path: that lock must stay."""
    with locked(tmp_path / "output"):
        (tmp_path / ".output.lock").unlink()
        other = hold(tmp_path / "output")
    with other, pytest.raises(LearnedSparseError, match=f"process {other.pid}"):
        try:
            with locked(tmp_path / "output"):
                pass
        finally:
            other.kill()
