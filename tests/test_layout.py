"""Rules for every file of this project and for every command."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("learned_sparse", "encoders", "eval")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TEXTS = ("*.md", "*.cfg", "*.toml", "*.txt", "Makefile", ".ci/*", "collections/**/*", "docs/**/*")
HEAVY = ("torch", "transformers", "accelerate", "jnius", "pyserini", "faiss", "ir_datasets", "matplotlib", "scipy")

MACHINE_PATHS = re.compile(r"/(work|root|opt)/|/(home|Users)/[a-z]|pypi\.org|pythonhosted|pytorch\.org/whl")
UNSAFE = re.compile(
    r"torch\.load\((?!.*weights_only=True)|\bimport pickle|\bfrom pickle|trust_remote_code\s*=\s*True|shell\s*=\s*True"
)

RUN_HELP = """
import json, runpy, sys, time
module, heavy = sys.argv[1], json.loads(sys.argv[2])
sys.argv = [module, "--help"]
status = None
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
except SystemExit as end:
    status = end.code
report = {"status": status, "loaded": [name for name in heavy if name in sys.modules], "seconds": time.process_time()}
print(json.dumps(report), file=sys.stderr)
"""

IMPORT_ALL = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
print([name for name in json.loads(sys.argv[2]) if name in sys.modules])
"""


def module_name(path: Path) -> str:
    """Module of a file; ``__init__.py`` and ``__main__.py`` have the name of their package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] in {"__init__", "__main__"} else parts)


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def commands() -> tuple[str, ...]:
    """Every module that ``python -m`` can run."""
    return tuple(module_name(path) for path in command_files())


def command_files() -> list[Path]:
    return [path for path in SOURCES if 'if __name__ == "__main__"' in path.read_text("utf-8")]


def test_commands_are_found() -> None:
    documented = {
        "learned_sparse.encode", "learned_sparse.index", "learned_sparse.search",
        "learned_sparse.pyserini", "encoders.train", "eval.evaluate", "eval.demo",
    }  # fmt: skip
    assert documented <= set(commands())


@pytest.mark.parametrize("command", commands())
def test_help_is_quick_and_light(command: str, python: Any) -> None:
    done = python("-c", RUN_HELP, command, json.dumps(HEAVY))
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["status"] == 0
    assert "usage:" in done.stdout
    assert command in done.stdout  # people copy the usage line
    assert report["loaded"] == []
    assert "RuntimeWarning" not in done.stderr  # of runpy, if the package imports the module of its command
    assert report["seconds"] < 1  # processor time, which other processes do not change


@pytest.mark.parametrize("path", command_files(), ids=short)
def test_every_command_ends_with_a_readable_error(path: Path) -> None:
    assert path.read_text(encoding="utf-8").splitlines()[-1].startswith("    run_main(main")


def test_the_plug_in_imports_nothing_heavy(python: Any) -> None:
    modules = [module_name(path) for path in SOURCES if path.is_relative_to(ROOT / "learned_sparse")]
    assert len(modules) > 10
    done = python("-c", IMPORT_ALL, json.dumps(modules), json.dumps([name for name in HEAVY if name != "scipy"]))
    assert done.stdout == "[]\n", done.stderr


def test_collections_is_no_package() -> None:
    unexpected = [short(path) for path in (ROOT / "collections").rglob("*") if path.suffix not in (".yaml", ".md")]
    assert unexpected == []


def test_the_standard_library_keeps_its_collections(python: Any) -> None:
    program = (
        "import collections, sysconfig; print(collections.deque, collections.__file__, sysconfig.get_path('stdlib'))"
    )
    done = python("-c", program)
    assert done.stdout.startswith("<class 'collections.deque'>"), done.stderr
    _, _, file, library = done.stdout.split()
    assert Path(file).is_relative_to(library)


def test_files_name_no_machine_and_do_nothing_unsafe() -> None:
    texts = {short(path): path.read_text(encoding="utf-8") for path in SOURCES + TESTS if path != Path(__file__)}
    assert [name for name, text in texts.items() if MACHINE_PATHS.search(text)] == []
    assert [short(path) for path in SOURCES if UNSAFE.search(texts[short(path)])] == []


def test_variables_of_the_environment_are_documented() -> None:
    names = {name for path in SOURCES for name in re.findall(r"LEARNED_SPARSE_[A-Z_]+", path.read_text("utf-8"))}
    page = (ROOT / "learned_sparse" / "README.md").read_text(encoding="utf-8")
    assert sorted(names) == sorted(re.findall(r"^\| `(LEARNED_SPARSE_[A-Z_]+)` \|", page, re.MULTILINE))


def test_documents_name_no_machine() -> None:
    paths = [path for pattern in TEXTS for path in ROOT.glob(pattern) if path.is_file()]
    assert ROOT / "setup.cfg" in paths
    assert [short(path) for path in paths if MACHINE_PATHS.search(path.read_text(encoding="utf-8"))] == []


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in SOURCES}
    assert [short(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
    assert [package for package in PACKAGES if not (ROOT / package / "py.typed").exists()] == []


def test_only_the_folder_of_all_tests_is_a_package() -> None:
    assert [short(path) for path in TESTS if path.name == "__init__.py"] == ["tests/__init__.py"]
