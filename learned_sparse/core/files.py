"""Files and folders that are written whole or not at all, and the layout of the home folder."""

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

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def home() -> Path:
    """Home folder: ``$LEARNED_SPARSE_HOME``, else ``learned_sparse_home`` in the current folder (not created here)."""
    return Path(os.environ.get("LEARNED_SPARSE_HOME") or "learned_sparse_home")


def checkpoint_folder(model: str) -> Path:
    """Default checkpoint of a model, as ``make demo`` trains it."""
    return home() / "checkpoints" / model


def default_checkpoint(model: str) -> str:
    """``checkpoint_folder(model)``; raises if there is no such folder."""
    folder = checkpoint_folder(model)
    if not folder.is_dir():
        raise LearnedSparseError(
            f"{folder}: no checkpoint of {model!r}; `make demo` trains one, --checkpoint names another (DIR or Hub id)"
        )
    return str(folder)


def vectors_folder(collection: str, model: str) -> Path:
    """Encoded documents of a collection."""
    return home() / "vectors" / collection / model


def encoded_folders(collection: str, model: str, option: str, collection_option: str | None = None) -> list[Path]:
    """Folders with the encoded documents of a collection: one folder, or one folder for each shard.

    Several encodings beside each other are an error, since one of them may be out of date. Errors name ``option``,
    which takes folders instead; that for missing vectors also names ``collection_option``, the value of
    ``--collection``.
    """
    folder = vectors_folder(collection, model)
    shards = sorted(folder.parent.glob(f"{glob.escape(folder.name)}-shard-*-of-*"))
    if folder.is_dir() and not shards:
        return [folder]
    if not shards:
        command = f"python -m learned_sparse.encode --model {model} --collection {collection_option or collection}"
        raise LearnedSparseError(f"{folder}: no vectors yet; run {command}, or name their folder with {option}")
    if folder.is_dir() or {shard.name.rpartition("-")[2] for shard in shards} != {str(len(shards))}:
        names = ", ".join(path.name for path in [*([folder] if folder.is_dir() else []), *shards])
        raise LearnedSparseError(
            f"{folder.parent}: not all shards of one encoding, or several encodings, of which one may be out of date: "
            f"{names}; remove those that are not wanted, or name the wanted ones with {option}"
        )
    return shards


def queries_folder(collection: str, split: str, model: str) -> Path:
    """Encoded queries of one split of a collection."""
    return home() / "queries" / collection / split / model


def index_folder(collection: str, model: str) -> Path:
    """Lucene index of a collection."""
    return home() / "indexes" / collection / model


def run_file(collection: str, split: str, model: str) -> Path:
    """TREC run of one split of a collection."""
    return home() / "runs" / collection / split / f"{model}.txt"


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that is renamed to ``path`` when the block ends without an exception.

    Missing parent folders are created. Until the rename the bytes are in ``.NAME.<random>.tmp`` in the same folder,
    a name that Anserini does not read. An exception removes the temporary file. The temporary file of a killed process
    is removed by the next write of the same path. If two processes write the same path at once, one gets an error.
    """
    path = Path(path)
    temporary = _temporary_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in _leftovers(path):
            leftover.unlink(missing_ok=True)
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
        if error.errno not in _DISK_FULL:
            raise
        raise _unwritable(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a folder ``.NAME.<random>.tmp`` that is renamed to ``path`` when the block ends without an exception.

    An existing folder ``path`` is replaced then. The temporary folder of a killed process is removed by the next call
    with the same path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in _leftovers(path):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary = _temporary_name(path)
    temporary.mkdir()
    try:
        yield temporary
        if path.exists():
            replaced = temporary.with_name(f"{temporary.name}.replaced")
            path.rename(replaced)
            temporary.rename(path)
            shutil.rmtree(replaced)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sha256(path: str | Path) -> str:
    """SHA-256 of the bytes of a file, as 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: str | Path) -> Any:
    """Content of a JSON file."""
    try:
        return json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise LearnedSparseError(f"{path}: no such file") from None
    except json.JSONDecodeError as error:
        raise LearnedSparseError(f"{path}:{error.lineno}: not readable as JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise LearnedSparseError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error


def write_json(path: str | Path, content: Any) -> None:
    """Write ``content`` as JSON (sorted keys, indented, final newline), so that equal contents give equal bytes.

    NaN and infinities are not JSON and raise ``ValueError``.
    """
    text = json.dumps(content, sort_keys=True, indent=2, allow_nan=False)
    with atomic_write(path) as file:
        file.write(text.encode("ascii") + b"\n")


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")


def _leftovers(path: Path) -> Iterator[Path]:
    return path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.tmp")


def _rename(temporary: Path, path: Path) -> None:
    try:
        temporary.replace(path)
    except FileNotFoundError as error:
        raise LearnedSparseError(
            f"{path}: another process writes this file too; give each process its own folder"
        ) from error
    if os.name == "nt":
        return  # Windows cannot open a folder
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # so that the new name survives a power failure
    finally:
        os.close(folder)


def _unwritable(path: Path, error: OSError) -> LearnedSparseError:
    solution = "free disk space" if error.errno in _DISK_FULL else "write to another folder, or change the permissions"
    return LearnedSparseError(f"{path}: cannot be written ({error.strerror}); {solution}")
