"""Files and folders that one writer writes, whole or not at all, and the layout of the home folder."""

from __future__ import annotations

import errno
import glob
import hashlib
import itertools
import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import DISK_FULL, LearnedSparseError, error_number, not_found, unwritable

TRAINING_INDEX = "bm25-of-training"
"""Name of the index that training mines in; "bm25" may be another's, or be read at that moment."""
_FORBIDDEN = re.compile(r'^[-.]|[<>:"/\\|?*\x00-\x1f\x7f\ud800-\udfff]|[ .]$')
_CHECKSUM = "sha256"
_MAX_NAME = 150
"""Bytes of a name in paths; file systems allow 255, and shards, seeds and temporary names add to it."""
_log = logging.getLogger(__name__)
_not_locked = itertools.count()
"""Counts the locks that could not be taken: the first one is reported."""


def home() -> Path:
    """Home folder: ``$LEARNED_SPARSE_HOME``, else ``learned_sparse_home`` in the current folder (not created here)."""
    return Path(os.environ.get("LEARNED_SPARSE_HOME") or "learned_sparse_home")


def is_name(text: str) -> bool:
    """Whether ``text`` can be the name of one file or folder, and an argument of a command.

    >>> [is_name(text) for text in ("splade", "a b", "..", "a/b", ".hidden", "-x", "", "x" * 300)]
    [True, True, False, False, False, False, False, False]
    """
    return bool(text and not _FORBIDDEN.search(text) and len(text.encode()) <= _MAX_NAME)


def check_name(name: str, what: str) -> str:
    """``name`` if ``is_name`` holds; ``what`` opens the error message, for instance "model"."""
    if not is_name(name):
        raise LearnedSparseError(
            f"{what}: the name {name[:_MAX_NAME]!r} cannot be a folder; use at most {_MAX_NAME} "
            "letters, digits, '-', '_' and '.', and begin with a letter or a digit"
            + ("; --checkpoint takes a folder or a Hub id" if what == "model" else "")
        )
    return name


def checkpoint_folder(model: str) -> Path:
    """Default checkpoint of a model, as ``make demo`` trains it."""
    return home() / "checkpoints" / check_name(model, "model")


def vectors_folder(collection: str, model: str) -> Path:
    """Encoded documents of a collection."""
    return home() / "vectors" / check_name(collection, "collection") / check_name(model, "model")


def encoded_folders(collection: str, model: str, option: str, collection_option: str | None = None) -> list[Path]:
    """Folders with the encoded documents of a collection: one folder, or one folder for each shard.

    Several encodings beside each other are an error, since one of them may be out of date. Errors name ``option``,
    which takes folders instead; that for missing vectors also names ``collection_option``, the value of
    ``--collection``.
    """
    folder = vectors_folder(collection, model)
    restore_folder(folder)
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
    of_split = home() / "queries" / check_name(collection, "collection") / check_name(split, "split")
    return of_split / check_name(model, "model")


def index_folder(collection: str, model: str) -> Path:
    """Lucene index of a collection."""
    return home() / "indexes" / check_name(collection, "collection") / check_name(model, "model")


def run_file(collection: str, split: str, model: str) -> Path:
    """TREC run of one split of a collection."""
    of_split = home() / "runs" / check_name(collection, "collection") / check_name(split, "split")
    return of_split / f"{check_name(model, 'model')}.txt"


@contextmanager
def new_file(path: str | Path, *, wait: bool = False, folder: bool = False) -> Iterator[Path]:
    """Yield the name of a file to write, which is renamed to ``path`` when the block ends without an exception.

    Missing parent folders are created. Until the rename the file is ``.NAME.<random>.tmp`` in the same folder, a name
    that Anserini does not read. An exception removes it; that of a killed process is removed by the next write of the
    same path. Meanwhile ``path`` is ``locked``: a second writer gets an error, or with ``wait`` waits. ``folder``: see
    ``new_folder``.
    """
    path = Path(os.path.realpath(path))
    with locked(path, wait=wait) as lock:
        leftovers = path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}.tmp")
        for leftover in leftovers if lock else ():
            _remove(leftover)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            if not folder and path.exists() and not path.is_file():  # a rename would replace a device such as /dev/null
                raise LearnedSparseError(f"{path}: is a folder or a device; name a file")
            yield temporary
            if not folder:
                _sync(temporary)
                temporary.replace(path)
            _sync(path.parent)
        except LearnedSparseError:
            raise
        except Exception as error:
            file = Path(str(getattr(error, "filename", None)))
            ours = file in {path, path.parent} or file.is_relative_to(temporary)
            if ours or error_number(error) in {*DISK_FULL, errno.EIO}:
                raise unwritable(path, error) from error
            raise
        finally:
            _remove(temporary)


@contextmanager
def new_folder(path: str | Path, *, wait: bool = False) -> Iterator[Path]:
    """Yield a folder ``.NAME.<random>.tmp`` that is renamed to ``path`` when the block ends without an exception.

    An existing folder ``path`` is replaced then. What a killed process has left is removed by the next call with the
    same path. Meanwhile ``path`` is ``locked``: a second writer gets an error. With ``wait`` it waits, and the folder
    of the first writer stays.
    """
    path = Path(os.path.realpath(path))
    restore_folder(path)
    with new_file(path, wait=wait, folder=True) as temporary:
        temporary.mkdir()
        yield temporary
        if wait and path.exists():
            return
        for parent, _, names in os.walk(temporary, topdown=False):
            for file in (Path(parent, name) for name in (*names, ".")):
                if not file.is_symlink():
                    _sync(file)
        aside = path.with_name(f".{path.name}.replaced")
        _remove(aside)  # of a writer that was killed after its second rename
        if path.is_dir():
            path.rename(aside)  # a writer that is killed here leaves it, and ``restore_folder`` restores it
        temporary.rename(path)
        _remove(aside)


@contextmanager
def new_output(
    output: Path, record: str, written: Callable[[Path], Iterable[Path]], *, overwrite: bool
) -> Iterator[Path]:
    """A temporary folder that is renamed to ``output`` if the block ends without an exception.

    A folder that is not empty is replaced only if ``overwrite`` is set and all its files are of an earlier run of the
    same command: it has the file ``record``, and every other file is one of ``written(output)``.
    """
    with new_folder(output) as folder:
        if output.exists() and not (output.is_dir() and not any(output.iterdir())):
            if not (output / record).is_file():
                raise LearnedSparseError(
                    f"{output}: exists and holds no {record} of an earlier run; name another folder"
                )
            if not overwrite:
                raise LearnedSparseError(
                    f"{output}: holds the output of an earlier run; replace it with --overwrite (overwrite=True)"
                )
            known = {output / record, *written(output)}
            if others := sorted(path for path in output.rglob("*") if not path.is_dir() and path not in known):
                raise LearnedSparseError(
                    f"{others[0]}: not written by the earlier run that --overwrite replaces; move it away, or name "
                    "another folder"
                )
        yield folder


def restore_folder(path: Path) -> None:
    """Rename the folder that a killed writer has moved aside back to ``path``, if ``path`` does not exist."""
    aside = path.with_name(f".{path.name}.replaced")
    if not path.exists() and aside.is_dir():
        with suppress(LearnedSparseError), locked(path):  # a writer that is alive goes on by itself
            if not path.exists():
                aside.rename(path)


@contextmanager
def locked(path: str | Path, *, wait: bool = False) -> Iterator[bool]:
    """Be the only writer of ``path``, a file or a folder, in the block.

    While another process or thread writes ``path``, raise an error, or with ``wait`` wait for it. The lock is the file
    ``.NAME.lock`` beside ``path``, which is removed with the block. The operating system releases the lock of a killed
    process. Where no lock can be taken (a file system without locks, a folder above that cannot be written), the block
    gets False; the first time in a process, a warning says so.
    """
    from filelock import FileLock, Timeout

    path = Path(os.path.realpath(path))
    file = path.with_name(f".{path.name}.lock")
    lock = FileLock(file, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(blocking=wait)
    except Timeout:
        raise LearnedSparseError(
            f"{path}: another command writes here; wait until it ends, or write to another path"
        ) from None
    except OSError as error:
        without_locks = error.errno in {errno.ENOLCK, errno.EOPNOTSUPP}
        if not without_locks and not os.access(path, os.W_OK):
            raise unwritable(path, error) from error
        if next(_not_locked) == 0:
            _log.warning("%s: not locked (%s); make sure that no other command writes there", path, error)
        yield False
        return
    try:
        yield True
    finally:
        file.unlink(missing_ok=True)  # while it is locked: a waiting process then notices and makes a new file
        lock.release()


def sha256(path: str | Path) -> str:
    """SHA-256 of the bytes of a file, as 64 hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: str | Path, *, record: bool = False) -> Any:
    """Content of a JSON file.

    ``record``: the object that ``write_json`` wrote as a record; its checksum is verified. A record without checksum,
    written by hand or long ago, is read too.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except FileNotFoundError:
        raise not_found(path) from None
    except json.JSONDecodeError as error:
        raise LearnedSparseError(f"{path}:{error.lineno}: not readable as JSON: {error.msg}") from error
    except OSError as error:
        raise LearnedSparseError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise LearnedSparseError(f"{path}: not readable as JSON: {error}") from error
    if record:
        if not isinstance(content, dict):
            raise LearnedSparseError(f"{path}: expected an object, got {type(content).__name__}")
        recorded = content.pop(_CHECKSUM, None)
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        if recorded is not None and recorded != digest:
            raise LearnedSparseError(
                f"{path}: changed since it was written; restore it, or delete its line {_CHECKSUM!r} if that was meant"
            )
    return content


def write_json(path: str | Path, content: Any, *, record: bool = False) -> None:
    """Write ``content`` as JSON (sorted keys, indented, final newline), so that equal contents give equal bytes.

    NaN and infinities are not JSON and raise ``ValueError``. The file is small: a second writer waits for the first.
    ``record``: with the SHA-256 of the object ``content`` as a further key, by which ``read_json`` notices damage.
    """
    if record:
        content = json.loads(json.dumps(content, allow_nan=False))  # keys that are not text become text
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        content = {**content, _CHECKSUM: digest}
    text = json.dumps(content, sort_keys=True, indent=2, allow_nan=False)
    with new_file(path, wait=True) as temporary:
        temporary.write_text(f"{text}\n", encoding="ascii")


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, survive a power failure."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot
            raise
    finally:
        os.close(file)
