"""Files and folders are whole or absent after errors, kills and full disks."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, new_file, new_folder, read_json, restore_folder, write_json

KILLED = """
import os, signal, sys
from learned_sparse.core.files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""

KILLED_IN_FOLDER = """
import os, signal, sys
from pathlib import Path
from learned_sparse.core.files import new_folder
with new_folder(Path(sys.argv[1])) as folder:
    (folder / "run.txt").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""

KILLED_IN_SWAP = """
import os, signal, sys
from pathlib import Path
from learned_sparse.core import files
from learned_sparse.core.files import new_folder
path, step = Path(sys.argv[1]), int(sys.argv[2])
def counted(function):
    def call(*arguments, **options):
        global step
        if step == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        step -= 1
        return function(*arguments, **options)
    return call
files._remove = counted(files._remove)
Path.rename = counted(Path.rename)
with new_folder(path) as folder:
    (folder / "file").write_text("new")
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

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


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


def test_the_next_folder_removes_the_one_of_a_killed_process(tmp_path: Path, python: Any) -> None:
    path = tmp_path / "indexes" / "splade"
    assert python("-c", KILLED_IN_FOLDER, path).returncode == -9
    (leftover,) = path.parent.glob(".*.tmp")
    assert (leftover / "run.txt").is_file()
    with new_folder(path) as folder:
        assert list(path.parent.glob(".*.tmp")) == [folder] != [leftover]
    assert list(path.parent.iterdir()) == [path]


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


def test_other_os_errors_are_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="input"), atomic_write(tmp_path / "file.txt"):
        (tmp_path / "input").read_bytes()


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


def test_an_error_of_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for path in (tmp_path / "file", tmp_path / "folder"):
        write_old(path)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(LearnedSparseError, match=r"file: cannot be written \(Input/output error\); check the disk"):
        write_json(tmp_path / "file", "new")
    with pytest.raises(LearnedSparseError, match=r"folder: cannot be written \(Input/output error\)"):
        with new_folder(tmp_path / "folder") as folder:
            (folder / "file").write_text("new")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "folder"]
    assert [read_json(tmp_path / "file"), (tmp_path / "folder" / "file").read_text()] == ["old", "old"]


def write_old(path: Path) -> None:
    if path.name == "file":
        write_json(path, "old")
    else:
        with new_folder(path) as folder:
            (folder / "file").write_text("old")


def test_a_kill_while_a_folder_is_replaced(tmp_path: Path, python: Any) -> None:
    """A kill before and after each rename: after its restoration, the path has the old or the new folder."""
    seen = set()
    for step in range(6):
        path = tmp_path / str(step) / "index"
        with new_folder(path) as folder:
            (folder / "file").write_text("old")
        done = python("-c", KILLED_IN_SWAP, path, str(step))
        assert done.returncode in (0, -9), done.stderr
        restore_folder(path)
        content = (path / "file").read_text()
        assert content == "new" if done.returncode == 0 else content in ("old", "new")
        seen.add((done.returncode, content))
        with new_folder(path) as folder:
            (folder / "file").write_text("last")
        assert list(path.parent.iterdir()) == [path]
    assert seen == {(-9, "old"), (-9, "new"), (0, "new")}


def test_a_folder_is_replaced_behind_its_link(tmp_path: Path) -> None:
    (tmp_path / "disk" / "index").mkdir(parents=True)
    link = tmp_path / "index"
    link.symlink_to(tmp_path / "disk" / "index")
    with new_folder(link) as folder:
        assert folder.parent == tmp_path / "disk"
        (folder / "file").write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "disk" / "index" / "file").read_text() == "new"


@pytest.mark.parametrize("new", [atomic_write, new_folder])
def test_a_folder_without_permission(tmp_path: Path, new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # the permissions of a folder do not bind root
    with pytest.raises(
        LearnedSparseError, match=r"output: cannot be written \(Permission denied\); use another folder"
    ):
        with new(tmp_path / "output"):
            pass
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=30)
@given(content=json_values)
def test_reading_json_is_the_inverse_of_writing(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "content.json"
    write_json(path, content)
    assert read_json(path) == content


def test_bytes_of_json(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": 1, "a": "é"})
    assert (tmp_path / "a.json").read_bytes() == b'{\n  "a": "\\u00e9",\n  "b": 1\n}\n'


def test_json_has_no_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", float("nan"))
    assert list(tmp_path.iterdir()) == []


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


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LearnedSparseError, match="pipe: is a folder or a device"), atomic_write(tmp_path / "pipe"):
        pass
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("new", [atomic_write, new_folder])
def test_a_folder_that_is_lost_while_it_is_written(tmp_path: Path, new: Any) -> None:
    message = r"output: cannot be written \(No such file or directory\); check the path; if it was removed"
    with pytest.raises(LearnedSparseError, match=message), new(tmp_path / "outputs" / "output"):
        shutil.rmtree(tmp_path / "outputs")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=r"cannot be written \(File name too long\); use a shorter name"):
        write_json(tmp_path / ("x" * 300), {})
