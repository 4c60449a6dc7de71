"""The rules that make a skipped test a failure, tested in a separate test session."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

SKIPS = """
import pytest

@pytest.mark.{mark}
def test_that_skips():
    pytest.skip("no Java here")

@pytest.mark.{mark}
@pytest.mark.skip(reason="no Java here")
def test_marked_skip():
    pass

@pytest.mark.{mark}
def test_without_data(shared_data):
    pass
"""


@pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")], ids=["alone", "two"])
@pytest.mark.parametrize(
    ("mark", "no_skips", "status", "closing"),
    [
        ("jvm", "", 1, "1 failed, 1 skipped, 1 error"),
        ("slow", "", 0, "3 skipped"),
        ("slow", "1", 1, "1 failed, 1 skipped, 1 error"),
    ],
)
def test_skipped_java_test_is_a_failure(
    tmp_path: Path, root: Path, python: Any, mark: str, no_skips: str, status: int, closing: str,
    workers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("NO_SKIPS", no_skips)
    folder = tmp_path / "checkout" / "tests"
    folder.mkdir(parents=True)
    shutil.copy(root / "tests" / "conftest.py", folder)
    (folder / "test_some.py").write_text(SKIPS.format(mark=mark), encoding="utf-8")
    (folder.parent / "pytest.ini").write_text("[pytest]\nmarkers =\n  jvm\n  slow\n", encoding="utf-8")
    session = python("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:faulthandler", *workers, cwd=folder.parent)
    assert session.returncode == status, session.stdout
    assert f"{closing} in" in session.stdout.splitlines()[-1]
    assert (": must not be skipped (Skipped: no Java here)" in session.stdout) is bool(status)
