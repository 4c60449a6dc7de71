"""The checks of the installation, and the advice for each problem."""

from __future__ import annotations

import sys

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.lucene import installation


def test_this_machine_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert installation.report() == 0
    report = capsys.readouterr().out
    assert report.splitlines()[-1] == "no problems"
    assert [word for word in ("Java", "fatjar.jar", "PyTorch", "extras: ") if word not in report] == []


@pytest.mark.parametrize("missing", ["find_java", "anserini_jar", "torch"])
def test_problems_and_ways_out(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise LearnedSparseError("no find_java or anserini_jar; install it")

    if missing == "torch":
        monkeypatch.setitem(sys.modules, "torch", None)
    else:
        monkeypatch.setattr(installation, missing, fail)
    assert installation.report() == 1
    report = capsys.readouterr().out
    assert f"PROBLEM: {'torch cannot be imported' if missing == 'torch' else 'no find_java'}" in report
    assert report.endswith("1 problem\n")
