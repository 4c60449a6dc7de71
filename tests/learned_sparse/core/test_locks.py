"""One writer at a time; a lock ends with its owner."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import locked

HOLDER = """
import sys, time
from learned_sparse.core.files import locked
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


@pytest.mark.parametrize("locked_above", [False, True])
def test_threads_of_one_process_exclude_each_other(tmp_path: Path, locked_above: bool) -> None:
    """Each thread increments a number 50 times; without a lock, increments are lost."""
    path = tmp_path / "folder" / "count"
    path.parent.mkdir()
    path.write_text("0")
    at_once: list[int] = []

    def count() -> None:
        for _ in range(50):
            with locked(path, wait=True):
                at_once.append(1)
                path.write_text(str(int(path.read_text()) + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    with locked(path.parent) if locked_above else nullcontext():
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert path.read_text() == "200"
    assert list(tmp_path.rglob("*")) == [path.parent, path]


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
