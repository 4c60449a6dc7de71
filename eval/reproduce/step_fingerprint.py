"""What a file holds, as a hash that is computed once: it is kept with the file's size and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from learned_sparse.core import LearnedSparseError, home, read_json, sha256, write_json


def fingerprint(path: Path) -> str:
    """SHA-256 of a file, or of a folder's files with their names (sub-folders of training left out)."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
        return " ".join(f"{file.name}:{_of_file(file)}" for file in files)
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file or folder")
    return _of_file(path)


def state(path: Path) -> list[int]:
    """Size in bytes and time of the last change in nanoseconds: both stay while nobody writes."""
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _of_file(path: Path) -> str:
    known = _known()
    name = str(path.resolve())
    if known.get(name, [None])[0] != state(path):
        known = _known() | {name: [state(path), sha256(path)]}
        write_json(_store(), known)
    return str(known[name][1])


def _known() -> dict[str, Any]:
    found: dict[str, Any] = read_json(_store()) if _store().is_file() else {}
    return found


def _store() -> Path:
    return home() / "reproduce" / "files.json"
