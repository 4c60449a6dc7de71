"""Files and folders that are written whole or not at all, and the layout of the home folder."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from learned_sparse.core.errors import LearnedSparseError

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = re.compile(r'^[-.]|[<>:"/\\|?*\x00-\x1f\x7f\ud800-\udfff]|[ .]$')
_RESERVED_ON_WINDOWS = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_CHECKSUM = "sha256"
_MAX_NAME = 150
"""Bytes of a name in paths; file systems allow 255, and shards, seeds and temporary names add to it."""


def home() -> Path:
    """Home folder: ``$LEARNED_SPARSE_HOME``, else ``learned_sparse_home`` in the current folder (not created here)."""
    return Path(os.environ.get("LEARNED_SPARSE_HOME") or "learned_sparse_home")


def is_name(text: str) -> bool:
    """Whether ``text`` can be the name of one file or folder on every system, and an argument of a command.

    >>> [is_name(text) for text in ("splade", "a b", "..", "a/b", ".hidden", "-x", "nul.txt", "", "x" * 300)]
    [True, True, False, False, False, False, False, False, False]
    """
    return bool(
        text
        and not _FORBIDDEN.search(text)
        and not _RESERVED_ON_WINDOWS.fullmatch(text)
        and len(text.encode()) <= _MAX_NAME
    )


def check_name(name: str, what: str) -> str:
    """``name`` if ``is_name`` holds; ``what`` opens the error message, for instance "model"."""
    if not is_name(name):
        raise LearnedSparseError(
            f"{what}: the name {name[:_MAX_NAME]!r} cannot be a folder on every system; use at most {_MAX_NAME} "
            "letters, digits, '-', '_' and '.', and begin with a letter or a digit"
            + ("; --checkpoint takes a folder or a Hub id" if what == "model" else "")
        )
    return name


def checkpoint_folder(model: str) -> Path:
    """Default checkpoint of a model, as ``make demo`` trains it."""
    return _in_home("checkpoints", model=model)


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
    return _in_home("vectors", collection=collection, model=model)


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
    return _in_home("queries", collection=collection, split=split, model=model)


def index_folder(collection: str, model: str) -> Path:
    """Lucene index of a collection."""
    return _in_home("indexes", collection=collection, model=model)


def run_file(collection: str, split: str, model: str) -> Path:
    """TREC run of one split of a collection."""
    folder = _in_home("runs", collection=collection, split=split, model=model)
    return folder.with_name(f"{model}.txt")


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
    """Content of a JSON file; a key given twice, NaN and infinity are errors too."""
    try:
        content = Path(path).read_bytes()
        return json.loads(content, object_pairs_hook=_unique, parse_constant=_constant, parse_float=_float)
    except FileNotFoundError:
        raise LearnedSparseError(f"{path}: no such file") from None
    except json.JSONDecodeError as error:
        raise LearnedSparseError(f"{path}:{error.lineno}: not readable as JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise LearnedSparseError(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error
    except RecursionError:
        raise LearnedSparseError(f"{path}: not readable as JSON: nested too deeply") from None
    except ValueError as error:
        raise LearnedSparseError(f"{path}: not readable as JSON: {error}") from error
    except OSError as error:
        raise LearnedSparseError(f"{path}: cannot be read ({error.strerror})") from error


def write_json(path: str | Path, content: Any) -> None:
    """Write ``content`` as JSON (sorted keys, indented, final newline), so that equal contents give equal bytes.

    NaN and infinities are not JSON and raise ``ValueError``.
    """
    text = json.dumps(content, sort_keys=True, indent=2, allow_nan=False)
    with atomic_write(path) as file:
        file.write(text.encode("ascii") + b"\n")


def write_record(path: Path, content: Mapping[str, Any]) -> None:
    """``write_json`` with the SHA-256 of ``content`` as a further key, by which ``read_record`` notices damage."""
    write_json(path, {**content, _CHECKSUM: _digest(content)})


def read_record(path: Path) -> dict[str, Any]:
    """The content that ``write_record`` wrote; a record without checksum, written by hand or long ago, is read too."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise LearnedSparseError(f"{path}: expected an object, got {type(content).__name__}")
    recorded = content.pop(_CHECKSUM, None)
    if recorded is not None and recorded != _digest(content):
        raise LearnedSparseError(
            f"{path}: changed since it was written; restore it, or delete its line {_CHECKSUM!r} if that was meant"
        )
    return content


def _digest(content: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(content, allow_nan=False))  # keys that are not text become text
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} is given twice")
    return content


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _float(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _in_home(kind: str, **names: str) -> Path:
    """A path of the home folder that no name can leave."""
    return home().joinpath(kind, *(check_name(name, what) for what, name in names.items()))


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
