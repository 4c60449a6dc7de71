"""Locks between the writers of one file or folder; the operating system releases the lock of a killed process."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError, unwritable

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def locked(path: str | Path, *, wait: bool = False) -> Iterator[bool]:
    """Be the only writer of ``path``, a file or a folder, in the block.

    While another process or thread writes ``path``, raise an error, or with ``wait`` wait for it. The lock is the file
    ``.NAME.lock`` beside ``path``, which is removed with the block and taken over if its owner was killed. Where no
    lock can be taken (a file system without locks, a folder above that cannot be written), a warning says so and the
    block gets False.
    """
    from filelock import FileLock, Timeout

    path = Path(os.path.realpath(path))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path, error) from error
    file = path.with_name(f".{path.name}.lock")
    lock = FileLock(file, thread_local=False)
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        raise LearnedSparseError(
            f"{path}: another command writes here; wait until it ends, or write to another path"
        ) from None
    except OSError as error:
        without_locks = error.errno in {errno.ENOLCK, errno.EOPNOTSUPP}
        if not without_locks and not os.access(path, os.W_OK):
            raise unwritable(path, error) from error
        _log.warning("%s: not locked (%s); make sure that no other command writes there", path, error)
        yield False
        return
    try:
        yield True
    finally:
        file.unlink(missing_ok=True)  # while it is locked: a waiting process then notices and makes a new file
        lock.release()
