"""``tests.run_commands FILE``, for the fork server: one process runs a Python program, or all commands of a JSON file.

Torch and Java start once for all of them. What command number N prints is in ``N.shown``.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import sys
from pathlib import Path

from learned_sparse.collections import pydoc


def main(argv: list[str] | None = None) -> int:
    """Run the file; the status of the first command that fails."""
    (name,) = argv or sys.argv[1:]
    if name.endswith(".py"):
        runpy.run_path(name, run_name="__main__")
        return 0
    if Path("library").exists():
        pydoc.standard_library = lambda: Path("library").absolute()
    for number, words in enumerate(json.loads(Path(name).read_text(encoding="utf-8"))):
        sys.argv = words[1:]
        with Path(f"{number}.shown").open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            try:
                runpy.run_module(words[1], run_name="__main__", alter_sys=True)
            except SystemExit as end:
                if end.code:
                    raise
    return 0
