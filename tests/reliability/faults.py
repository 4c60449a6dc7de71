"""Faults that a run of the fork server meets: limits of the system, failing calls, and folders that vanish."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sys
from collections.abc import Callable, Mapping
from typing import Any

EVENTS = frozenset({
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree",
    "shutil.copyfile", "shutil.move", "subprocess.Popen", "tests.fsync",
})  # fmt: skip
"""Audit events, besides opening a file for writing, at which a run may be killed or a fault may strike."""
NOBODY = 65534


def install(faults: Mapping[str, Any], count: Callable[[str], None]) -> None:
    """Apply ``faults`` to this process, which has just been forked.

    ``count`` is called before each file operation, with the path if the operation has one.

    * ``file_bytes``, ``memory_bytes``: limits (``RLIMIT_FSIZE``, ``RLIMIT_AS``; memory on top of what is in use)
    * ``fsync``: the number of the call of ``os.fsync`` that fails with an I/O error
    * ``vanish``: ``[number, folder]``, the folder is removed before that file operation
    * ``nobody``: run without the rights of root
    """
    numbers = {"event": 0, "fsync": 0}
    vanish = list(faults.get("vanish", ()))
    fsync = os.fsync

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS and not (event == "open" and _writes(*arguments)):
            return
        count(str(next(iter(arguments), "")))
        numbers["event"] += 1
        if vanish and numbers["event"] == vanish[0]:
            folder = vanish.pop()
            vanish.clear()
            shutil.rmtree(folder, ignore_errors=True)

    def counted_fsync(file: Any) -> None:
        sys.audit("tests.fsync")
        numbers["fsync"] += 1
        if numbers["fsync"] == faults.get("fsync"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(file)

    os.fsync = counted_fsync  # type: ignore[assignment]
    sys.addaudithook(audit)
    if size := faults.get("file_bytes"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    if size := faults.get("memory_bytes"):
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123  (not counted as a write)
            used = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + size, used + size))
    if faults.get("nobody") and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _writes(path: Any, mode: Any, flags: Any) -> bool:
    if isinstance(path, int):
        return False
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) if isinstance(flags, int) else (mode or "r")[0] != "r"
