"""``python -m tests.checks.layout``: entries per folder and lines per file of the three packages and the tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("learned_sparse", "encoders", "eval")
MIN_ENTRIES, MAX_ENTRIES = 3, 12
"""Modules and packages in one folder of a package; ``__init__.py``, folders of data files and the ``__main__.py`` that
lists the commands of a package do not count."""
MAX_LINES = 400
"""Lines of one Python file, in the packages and in the tests."""


def problems(root: Path) -> Iterator[str]:
    """One line for each folder or file that breaks a limit."""
    for package in PACKAGES:
        folders = [root / package, *(path for path in (root / package).rglob("*") if has_modules(path))]
        for folder in sorted(folders):
            count = len(entries(folder))
            lists_commands = folder.parent == root and (folder / "__main__.py").exists()
            if not MIN_ENTRIES <= count <= MAX_ENTRIES + lists_commands:
                name = folder.relative_to(root)
                yield f"{name}: {count} modules and packages; a folder has {MIN_ENTRIES} to {MAX_ENTRIES}"
    for top in (*PACKAGES, "tests"):
        for file in sorted((root / top).rglob("*.py")):
            lines = file.read_text(encoding="utf-8").count("\n")
            if lines > MAX_LINES:
                yield f"{file.relative_to(root)}: {lines} lines; a file has at most {MAX_LINES}"


def entries(folder: Path) -> list[str]:
    """Names of the modules and packages in a folder, without ``__init__.py``."""
    modules = [path.stem for path in folder.glob("*.py") if path.name != "__init__.py"]
    return sorted([*modules, *(path.name for path in folder.iterdir() if has_modules(path))])


def has_modules(path: Path) -> bool:
    """Whether ``path`` is a folder of Python modules, itself or further down."""
    return path.is_dir() and any(path.rglob("*.py"))


def main() -> int:
    """Print the problems; the exit status is 1 if there are any."""
    found_problems = list(problems(ROOT))
    for problem in found_problems:
        print(problem, file=sys.stderr)
    count = sum(1 for package in PACKAGES for _ in (ROOT / package).rglob("*.py"))
    print(f"Checked the layout of {count} Python files in {', '.join(PACKAGES)}: {len(found_problems)} problems.")
    return 1 if found_problems else 0


if __name__ == "__main__":
    sys.exit(main())
