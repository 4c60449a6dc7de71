"""Where ir_datasets keeps what it fetched, looked at without importing it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

_NOTHING = ("irds_version.txt", "bin.meta")  # written when ir_datasets is imported, and when a download fails


def installed() -> bool:
    """Whether ir_datasets could be imported."""
    return importlib.util.find_spec("ir_datasets") is not None


def cache_folder() -> Path:
    """``$IR_DATASETS_HOME``, else ``.ir_datasets`` in the user's folder."""
    return Path(os.environ.get("IR_DATASETS_HOME") or Path.home() / ".ir_datasets")


def cached(name: str) -> bool:
    """Whether files of ``name`` are in the cache, whole or in part.

    The files of ``beir/scifact/test`` are below ``beir/scifact``: the deepest folder there is of a name is looked at.
    One with the whole name counts with all that is below it, one above it with its own files only, since what is below
    belongs to other names.
    """
    folder, parts = cache_folder(), name.split("/")
    deepest = next((i for i, part in enumerate(parts) if not folder.joinpath(*parts[:i], part).is_dir()), len(parts))
    if deepest == 0:
        return False
    found = folder.joinpath(*parts[:deepest]).glob("**/*" if deepest == len(parts) else "*")
    return any(path.name not in _NOTHING and path.is_file() and path.stat().st_size for path in found)
