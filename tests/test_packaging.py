"""The package works as a wheel that is used elsewhere. Tests run an editable install."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("learned_sparse", "encoders", "eval")
PARTS = (*PACKAGES, "collections", "setup.cfg", "pyproject.toml", "LICENSE", "README.md")
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
OFFLINE = ("--no-deps", "--no-index", "--quiet")
CHECK = """
import json
import encoders, eval, learned_sparse
from encoders.training.recipe import load_recipe, recipe_names
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.descriptions import descriptions
print(json.dumps({
    "files": [module.__file__ for module in (encoders, eval, learned_sparse)],
    "collections": sorted({file.stem for name, file in descriptions().items() if load_collection(name).name == name}),
    "encoders/recipes": [name for name in recipe_names() if load_recipe(name)],
}))
"""


def call(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | variables
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the files that a build needs, without tests and files of an earlier install."""
    folder, dist = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    call(*PIP, "wheel", *OFFLINE, "--no-build-isolation", "--wheel-dir", dist, folder)
    (built,) = dist.glob("*.whl")
    return built


def test_wheel_used_elsewhere(wheel: Path, tmp_path: Path) -> None:
    """In a folder that comes before the editable install."""
    call(*PIP, "install", *OFFLINE, "--target", tmp_path, wheel)
    facts = json.loads(call("-c", CHECK, cwd=tmp_path, PYTHONPATH=str(tmp_path)))
    assert [Path(file).is_relative_to(tmp_path) for file in facts["files"]] == [True, True, True], facts["files"]
    for folder in ("collections", "encoders/recipes"):
        stems = sorted(path.stem for path in (ROOT / folder).glob("[!_]*.yaml"))  # _NAME: a base
        assert facts[folder] == stems != []


def test_contents_of_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
    assert {file.split("/")[0].rpartition(".")[2] for file in files} == {*PACKAGES, "dist-info", "data"}
    needed = {".py", ".css", ".js", ".class", ".yaml", ".txt", ".html", ".typed"}
    paths = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.*")]
    missing = {str(path) for path in paths if path.suffix in needed and "results" not in path.parts} - set(files)
    assert not missing
    assert any(file.endswith("licenses/LICENSE") for file in files)
