"""The docstrings of the running Python's standard library, read from its source and never imported."""

from __future__ import annotations

import ast
import os
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

_INSTALLED = {"site-packages", "dist-packages", "lib-dynload", "__pycache__"}
_NOT_LIBRARY = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "__hello__", "__phello__"}
_LEFT_OUT = _INSTALLED | _NOT_LIBRARY
_BLOCKS = ("body", "handlers", "orelse", "finalbody")


def library() -> Path:
    """The folder of the running Python's standard library."""
    return Path(sysconfig.get_path("stdlib"))


def source_files(folder: Path) -> list[Path]:
    """The ``.py`` files of a library in the order of their paths, without tests, examples and installed packages."""
    found = []
    for place, folders, files in os.walk(folder):
        top = Path(place) == folder
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not (top and name.startswith("config-"))]
        found += [Path(place, name) for name in files if name.endswith(".py") and name[:-3] not in _LEFT_OUT]
    return sorted(found, key=lambda file: file.relative_to(folder).parts)


def docstrings(folder: Path, files: list[Path]) -> Iterator[tuple[str, str]]:
    """``(qualified name, docstring)`` of every module, class, function and method that has one.

    A name that is defined twice, as for two operating systems, gives its first docstring. A file that this Python
    cannot parse (a test's deliberate mistake, say) has none.
    """
    names: set[str] = set()
    for file in files:
        module = _module_name(file.relative_to(folder))
        for name, text in _definitions(_parse(file), module):
            if name not in names:
                names.add(name)
                yield name, text.encode("utf-8", "replace").decode("utf-8")  # a literal may hold half a surrogate pair


def _module_name(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _parse(file: Path) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid escapes in the library's own strings
            return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _definitions(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text and text.strip():
            yield name, text
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):  # what is inside a function has no qualified name
        for block in _BLOCKS:
            for child in getattr(node, block, []):
                yield from _definitions(
                    child, f"{name}.{child.name}" if hasattr(child, "name") and _named(child) else name
                )


def _named(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
