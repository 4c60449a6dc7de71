"""The package works as a wheel used elsewhere and as a plain install run from the root. Tests run an editable one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("learned_sparse", "encoders", "eval", "collections", "setup.cfg", "pyproject.toml", "LICENSE", "README.md")
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
OFFLINE = ("--no-deps", "--no-index", "--quiet")

CHECK = """
import json
from collections import deque
import encoders, eval, learned_sparse
from encoders.training.recipe import load_recipe, recipe_names
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.descriptions import descriptions
print(json.dumps({
    "files": [module.__file__ for module in (encoders, eval, learned_sparse)],
    "collections": sorted({file.stem for name, file in descriptions().items() if load_collection(name).name == name}),
    "recipes": [name for name in recipe_names() if load_recipe(name)],
}))
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy of the files that a build needs, without tests and without files of an earlier install."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    copy = shutil.copytree(checkout, tmp_path_factory.mktemp("build") / "copy")
    call(Path(sys.executable), *PIP, "wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", folder, copy)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Python of an environment with the wheel and the dependencies of this one, but not its editable install."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    call(Path(sys.executable), *PIP, "--python", python, "install", *OFFLINE, wheel)
    return python


def call(python: Path, *arguments: str | Path, cwd: Path | None = None) -> str:
    clean = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}
    command = [str(python), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_use(python: Path, cwd: Path, home: Path, checkout: Path) -> None:
    """The install has all collections and recipes of ``checkout``, its commands run, and its code is below ``home``."""
    facts = json.loads(call(python, "-c", CHECK, cwd=cwd))
    assert [Path(file).is_relative_to(home) for file in facts["files"]] == [True, True, True], facts["files"]
    for kind, folder in (("collections", "collections"), ("recipes", "encoders/recipes")):
        stems = sorted(path.stem for path in (checkout / folder).glob("[!_]*.yaml"))  # _NAME: a base
        assert facts[kind] == stems != []
    assert "usage: python -m learned_sparse.encode" in call(python, "-m", "learned_sparse.encode", "--help", cwd=cwd)


def test_wheel_used_elsewhere(installed: Path, checkout: Path, tmp_path: Path) -> None:
    check_use(installed, tmp_path, installed.parents[1], checkout)


def test_plain_install_run_from_the_root(installed: Path, checkout: Path) -> None:
    check_use(installed, checkout, checkout, checkout)


def test_contents_of_the_wheel(wheel: Path, checkout: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    release = wheel.name.split("-")[1]
    assert {file.split("/")[0] for file in files} == {
        *("learned_sparse", "encoders", "eval"), *(f"learned_sparse-{release}.{kind}" for kind in ("dist-info", "data"))
    }  # fmt: skip
    for package in ("learned_sparse", "encoders", "eval"):
        needed = [p for p in (checkout / package).rglob("*.*") if p.suffix in {".py", ".css", ".js", ".class"}]
        needed = [path for path in needed if "results" not in path.parts]  # pages of a leaderboard
        assert {str(path.relative_to(checkout)) for path in needed} <= set(files)
        assert f"{package}/py.typed" in files
    assert any(file.endswith("licenses/LICENSE") for file in files)
    for folder in (
        "eval/matrices",
        "eval/reproduce/leaderboard/static",
        "learned_sparse/export/usage",
        "learned_sparse/serve/static",
    ):
        assert {str(path.relative_to(checkout)) for path in (checkout / folder).iterdir()} <= set(files)
