"""Pages, tables and figures as files, each whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from learned_sparse.core import atomic_write


def write_texts(folder: Path, contents: Mapping[str, str]) -> None:
    """Each of ``contents``, by file name, as UTF-8 with one line end at the end; the folder is made if need be."""
    for name, content in contents.items():
        with atomic_write(folder / name) as file:
            file.write(f"{content.rstrip()}\n".encode())
