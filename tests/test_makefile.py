"""The make targets run the documented commands; a missing or old Python is an error."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def folder(root: Path, tmp_path: Path) -> Path:
    """A checkout without an environment."""
    for name in ("Makefile", "setup.cfg", "pyproject.toml", "constraints.txt"):
        shutil.copy(root / name, tmp_path)
    return tmp_path


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)


def test_environment_is_created_once(folder: Path) -> None:
    first = make(folder, "-n", "check").stdout
    assert "-m venv .venv" in first
    assert "--constraint constraints.txt --editable '.[train,data,demo,dev]'" in first
    (folder / ".venv").mkdir()
    (folder / ".venv" / ".ready").touch()
    assert "venv .venv" not in make(folder, "-n", "check").stdout
    os.utime(folder / ".venv" / ".ready", (0, 0))
    assert "-m venv .venv" in make(folder, "-n", "check").stdout


def test_checks_run_before_the_tests(folder: Path) -> None:
    lines = make(folder, "-n", "test").stdout.splitlines()
    assert [line.removeprefix(".venv/bin/") for line in lines if line.startswith(".venv/bin/")][1:] == [
        "ruff check .",
        "ruff format --check .",
        "mypy --num-workers 2",
        "lint-imports",
        "python -m tests.checks.layout",
        "python -m tests.checks.portability",
        "python -m pytest --numprocesses 2 --no-loadscope-reorder",
    ]


def test_ci_runs_the_slow_tests_too(folder: Path, root: Path) -> None:
    slow, bf16 = make(folder, "-n", "test-slow").stdout.splitlines()[-2:]
    assert slow.endswith("-m 'slow and not published'")
    assert bf16.startswith("LEARNED_SPARSE_DTYPE=bf16 .venv/bin/python -m pytest ")
    assert "\nmake test\nmake test-slow\n" in (root / ".ci" / "run").read_text(encoding="utf-8")


def test_another_python_has_its_own_environment(folder: Path) -> None:
    """As ``.ci/run`` asks for it, where Python 3.12 is there."""
    lines = make(folder, "-n", "test-jvm", "PYTHON=python3.12", "VENV=.venv-3.12").stdout.splitlines()
    assert any(line.startswith("python3.12 -m venv .venv-3.12 ") for line in lines)
    assert lines[-1].startswith(".venv-3.12/bin/python -m pytest ")
    assert "-m 'jvm and not slow and not published'" in lines[-1]


def test_engines_that_are_missing_are_failures(folder: Path) -> None:
    *_, install, tests = make(folder, "-n", "test-neighbours").stdout.splitlines()
    assert "'.[neighbours]'" in install
    assert tests.startswith("NO_SKIPS=1 .venv/bin/python -m pytest tests/learned_sparse/export ")


def test_gpu_tests_need_a_gpu(folder: Path) -> None:
    check, tests = make(folder, "-n", "test-gpu").stdout.splitlines()[-2:]
    assert "error: torch finds no GPU" in check
    assert tests == ".venv/bin/python -m pytest -m gpu"


def test_browser_tests_need_a_browser(folder: Path) -> None:
    *_, check, install, tests = make(folder, "-n", "test-browser").stdout.splitlines()
    assert "error: no Chromium on PATH" in check
    assert "'.[browser]'" in install
    assert tests == ".venv/bin/python -m pytest -m browser"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((), "python -m eval.demo "), (("MODELS=splade",), "python -m eval.demo --models splade")],
)
def test_demo(folder: Path, arguments: tuple[str, ...], expected: str) -> None:
    assert make(folder, "-n", "demo", *arguments).stdout.splitlines()[-1] == f".venv/bin/{expected}"


def test_benchmarks_install_the_other_toolkits(folder: Path) -> None:
    lines = make(folder, "-n", "bench", "BENCH=training").stdout.splitlines()
    assert "'.[bench]'" in lines[-3]
    assert lines[-2:] == [
        ".venv/bin/python -m tests.benchmarks.run training",
        ".venv/bin/python -m tests.benchmarks.report",
    ]


@pytest.mark.parametrize("program", ["#!/bin/sh\nexit 1\n", None], ids=["old", "missing"])
def test_unsuitable_python(folder: Path, program: str | None) -> None:
    python = folder / "python-for-make"
    if program:
        python.write_text(program, encoding="utf-8")
        python.chmod(0o755)
    done = make(folder, "check", f"PYTHON={python}")
    assert done.returncode != 0
    assert f"error: {python} is missing or older than Python 3.11; name a newer one: make PYTHON=" in done.stdout
    assert not (folder / ".venv").exists()
