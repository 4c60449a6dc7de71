"""Commands in the process of the tests, which has their imports and Java."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from learned_sparse.collections import pydoc
from learned_sparse.core.errors import run_main
from learned_sparse.ray import command_of


def run_command(
    module: str, arguments: Sequence[str], folder: Path | None = None, **environment: str
) -> tuple[int | str | None, str]:
    """Exit status and output of ``python -m module arguments`` in ``folder``."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with at_place(folder or Path.cwd(), **environment) as patch:
        patch.setattr(sys, "argv", [module, *arguments])
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output), pytest.raises(SystemExit) as end:
            run_main(command_of(module))
    output.flush()
    return end.value.code, output.buffer.getvalue().decode("utf-8")


@contextlib.contextmanager
def at_place(folder: Path, **environment: str) -> Iterator[pytest.MonkeyPatch]:
    """The current folder, with its ``library`` as standard library of pydoc if it has one, and further variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in environment.items():
            patch.setenv(name, value)
        if (library := Path("library").absolute()).is_dir():
            patch.setattr(pydoc, "LIBRARY", library)
        yield patch
