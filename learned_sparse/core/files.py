"""Files that are whole or absent: written under a temporary name, renamed when finished."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from learned_sparse.core.errors import LearnedSparseError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that appears as ``path`` when the block ends well, and not at all when it does not.

    The folder is made if need be. Until then the bytes are in ``.NAME.<random>.tmp`` in the same folder (a name that
    Anserini does not read); an exception removes it, and what a killed process left behind is removed by the next write
    of the same file. Of two processes that write the same file at once, one gets an error.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        file = temporary.open("xb")
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _rename(temporary, path)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise _unwritable(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to write into, which takes the name ``path`` when the block ends well; what stood there goes then."""
    with folder_beside(path) as temporary:
        yield temporary
        if path.exists():
            shutil.rmtree(path)
        temporary.rename(path)


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """A folder ``.NAME.<random>.tmp`` beside ``path``, gone when the block ends.

    The next one beside the same path removes what a killed process left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(8)}.tmp"
    temporary.mkdir()
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file's bytes, as 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: str | Path) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise LearnedSparseError(f"{path}: no such file") from None
    except json.JSONDecodeError as error:
        raise LearnedSparseError(f"{path}:{error.lineno}: not readable as JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise LearnedSparseError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error


def write_json(path: str | Path, content: Any) -> None:
    """Write ``content`` as JSON (sorted keys, two spaces, a newline at the end): equal contents give equal bytes.

    NaN and infinities have no spelling in JSON and are a ``ValueError``.
    """
    text = json.dumps(content, sort_keys=True, indent=2, allow_nan=False)
    with atomic_write(path) as file:
        file.write(text.encode("ascii") + b"\n")


def _remove_leftovers(path: Path) -> None:
    for leftover in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.tmp"):
        leftover.unlink(missing_ok=True)


def _rename(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except FileNotFoundError as error:
        raise LearnedSparseError(f"{path}: another process writes this file too; give each its own folder") from error
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name, too, must survive a power failure
    finally:
        os.close(folder)


def _unwritable(path: Path, error: OSError) -> LearnedSparseError:
    way_out = "make room" if error.errno in _FULL else "write somewhere else, or mend the rights"
    return LearnedSparseError(f"{path}: cannot be written ({error.strerror}); {way_out}")
