"""What make installs, and when; a missing or old Python is an error."""

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


def test_the_demo_installs_no_tools_of_developers(folder: Path) -> None:
    assert "'.[train,demo]'" in make(folder, "-n", "demo").stdout
    assert ",dev]'" not in make(folder, "-n", "demo").stdout
    assert ",dev]'" in make(folder, "-n", "test").stdout
    for name in (".installed", ".ready"):
        (folder / ".venv").mkdir(exist_ok=True)
        (folder / ".venv" / name).touch()
    assert "pip install" not in make(folder, "-n", "test").stdout
    os.utime(folder / ".venv" / ".installed", (0, 0))
    assert "-m venv .venv" in make(folder, "-n", "test").stdout


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
