"""Locks between the writers of one file or folder; the operating system releases the lock of a killed process."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError, unwritable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger(__name__)
_held: dict[Path, int] = {}
"""Paths that this process has locked, and the file descriptors of the locks."""


@contextlib.contextmanager
def locked(path: str | Path, *, wait: bool = False) -> Iterator[int | None]:
    """Be the only writer of ``path``, a file or a folder, in the block; gives the file descriptor of the lock.

    While another process or thread writes ``path``, raise an error that names the process, or with ``wait`` wait for
    it. The lock is the file ``.NAME.lock`` beside ``path``, which is removed with the block and taken over if its owner
    was killed. Where the file system has no locks, a warning says so once and the block gets None. Files in a folder
    that this process has locked need no locks of their own: the block gets the lock of the folder.
    """
    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
    if (outer := next((_held[parent] for parent in path.parents if parent in _held), None)) is not None:
        yield outer
        return
    lock = path.with_name(f".{path.name}.lock")
    file = _acquire(path, lock, wait=wait)
    if file is not None:
        _held[path] = file
    try:
        yield file
    finally:
        if file is not None:
            del _held[path]
            with contextlib.suppress(OSError):
                if _is_at(lock, file):
                    lock.unlink()
            os.close(file)


def lock_descriptors() -> tuple[int, ...]:
    """File descriptors of the locks of this process, for ``pass_fds`` of a process that writes below a locked path.

    The path then stays locked until that process ends, even if this one is killed.
    """
    return tuple(_held.values())


def _acquire(path: Path, lock: Path, *, wait: bool) -> int | None:
    if fcntl is None:
        _warn_once("this system has no flock")
        return None
    while True:
        try:
            file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            if os.access(path, os.W_OK) and path.is_dir():  # only the folder above cannot be written
                _warn_once(f"{lock}: {error.strerror}")
                return None
            raise unwritable(path, error) from error
        try:
            _lock(path, file, wait=wait)
            if _is_at(lock, file):  # else the last owner has removed the file between our two calls
                with contextlib.suppress(OSError):  # a full disk
                    os.ftruncate(file, 0)
                    os.write(file, _owner().encode())
                return file
        except OSError as error:
            os.close(file)
            _warn_once(f"{lock}: {error.strerror}")
            return None
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _lock(path: Path, file: int, *, wait: bool) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(file, 300, 0).decode(errors="replace") or "another process"
        if not wait:
            raise LearnedSparseError(
                f"{path}: {owner} writes here; wait until it ends, or write to another path"
            ) from None
        _log.info("%s: waiting until %s has written it", path, owner)
        fcntl.flock(file, fcntl.LOCK_EX)


def _is_at(lock: Path, file: int) -> bool:
    """Whether the open ``file`` still has the name ``lock``."""
    try:
        return os.path.samestat(lock.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _owner() -> str:
    return f"process {os.getpid()} on {socket.gethostname()} (since {time.strftime('%Y-%m-%d %H:%M:%S')})"


@functools.cache
def _warn_once(reason: str) -> None:
    _log.warning("outputs cannot be locked (%s); make sure that no two commands write the same output", reason)
