"""The static check of portability finds what some systems lack; fallbacks work where a name is missing."""

from __future__ import annotations

import os
import re
import types
from pathlib import Path

import pytest

from learned_sparse.core import atomic_write, locks, new_folder
from learned_sparse.core import files as core_files
from learned_sparse.index import build
from learned_sparse.lucene import IndexedCounts
from tests.checks.portability import problems


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import fcntl", "fcntl: "),
        ("from resource import setrlimit", "resource: "),
        ("count = len(os.sched_getaffinity(0))", "os.sched_getaffinity: "),
        ("signal.signal(signal.SIGHUP, stop)", "signal.SIGHUP: "),
        ("os.kill(process, 0)", "os.kill: "),  # ends the process on Windows
        ("link.symlink_to(file)", "symlink_to: "),
        ("subprocess.run(words, preexec_fn=limit)", "preexec_fn: "),
        ("lines = Path('/proc/cpuinfo').read_bytes()", "/proc/cpuinfo: "),
        ("log = Path('/dev/null')", "/dev/null: "),
        ("text = path.read_text()", "read_text: text without encoding="),
        ("file = path.open()", "open: text without encoding="),
        ("file = gzip.open(path, 'rt')", "open: text without encoding="),
        ("subprocess.run(words, text=True)", "run: text without encoding="),
        ("path.write_text(text, encoding='utf-8')", "write_text: text written without newline="),
        ("file = path.open('a', encoding='utf-8')", "open: text written without newline="),
        ("name = str(path.relative_to(folder))", "str of relative_to: "),
    ],
)
def test_a_problem_is_found(source: str, expected: str) -> None:
    ((line, problem),) = problems(source)
    assert line == 1
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    "source",
    [
        "try:\n    import fcntl\nexcept ImportError:\n    fcntl = None",
        "def count():\n    if hasattr(os, 'sched_getaffinity'):\n        return len(os.sched_getaffinity(0))",
        "try:\n    pages = os.sysconf('SC_PHYS_PAGES')\nexcept (AttributeError, ValueError):\n    pages = None",
        "def lock():\n    if os.name == 'nt':\n        return\n    fcntl.flock(file, 2)\n    os.fork()",
        "count = getattr(os, 'sched_getaffinity', None)",
        "path.open('rb'), gzip.open(path), directory.open(path), os.open(path, os.O_RDONLY)",
        "path.write_text(text, encoding='utf-8', newline='')",
        "name = path.relative_to(folder).as_posix()",
    ],
)
def test_a_fallback_is_no_problem(source: str) -> None:
    assert list(problems(source)) == []


def windows() -> types.SimpleNamespace:
    """``os`` as Windows has it, where folders cannot be opened."""

    def open_file(path: str | Path, flags: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied", str(path))
        return os.open(path, flags)

    return types.SimpleNamespace(**{**vars(os), "name": "nt", "open": open_file})


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_files_and_folders_are_replaced_on_other_systems(
    platform: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_files, "os", windows() if platform == "win32" else os)
    monkeypatch.setattr(core_files, "sys", types.SimpleNamespace(platform=platform))
    for content in (b"old", b"new"):
        with atomic_write(tmp_path / "run.txt") as file:
            file.write(content)
        with new_folder(tmp_path / "index") as folder:
            (folder / "segments_1").write_bytes(content)
    assert (tmp_path / "run.txt").read_bytes() == b"new"
    assert (tmp_path / "index" / "segments_1").read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "run.txt"]


def test_systems_without_flock_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    locks._warn_once.cache_clear()
    with atomic_write(tmp_path / "run.txt") as file:
        file.write(b"whole")
    assert "make sure that no two commands write the same output" in caplog.text
    assert [path.name for path in tmp_path.iterdir()] == ["run.txt"]


def test_vectors_are_copied_where_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(1314, "A required privilege is not held by the client")

    seen: list[bytes] = []

    def index_collection(kind: str, source: Path, *rest: object, **options: object) -> IndexedCounts:
        seen.extend(path.read_bytes() for path in sorted(source.iterdir()))
        return IndexedCounts(2, 0)

    monkeypatch.setattr(Path, "symlink_to", refuse)
    monkeypatch.setattr(build, "index_collection", index_collection)
    files = [tmp_path / "part-0.jsonl", tmp_path / "part-1.jsonl"]
    for file in files:
        file.write_bytes(file.name.encode())
    (tmp_path / "index").mkdir()
    build._with_anserini(files, tmp_path / "index", [], threads=1, heap=None)
    assert seen == [b"part-0.jsonl", b"part-1.jsonl"]


def test_variables_of_the_environment_are_documented(root: Path) -> None:
    sources = [path for package in ("learned_sparse", "encoders", "eval") for path in (root / package).rglob("*.py")]
    names = {
        name for path in sources for name in re.findall(r"LEARNED_SPARSE_[A-Z_]+", path.read_text(encoding="utf-8"))
    }
    page = (root / "learned_sparse" / "README.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(LEARNED_SPARSE_[A-Z_]+)` \|", page, re.MULTILINE)
    assert len(names) >= 5
    assert sorted(names) == sorted(table)
