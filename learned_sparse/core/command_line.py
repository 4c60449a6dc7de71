"""How every command ends: an error a person can read, and an exit status."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from learned_sparse.core.errors import LearnedSparseError

_MENDABLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS}


def run_main(main: Callable[[list[str] | None], int]) -> NoReturn:
    """Run a command's ``main`` on the process's arguments and exit with the status it returns.

    ``LearnedSparseError``, a full disk and missing rights become ``error: ...`` on standard error and status 2; Ctrl-C
    is status 130, a reader that went away (``| head``) status 141, both without a traceback. Anything else is a fault
    of ours and keeps its traceback.
    """
    try:
        status = main(None)
        sys.stdout.flush()
    except LearnedSparseError as error:
        status = _report(str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        status = 130
    except BrokenPipeError:
        # Python flushes standard output once more at exit: let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    except OSError as error:
        if error.errno not in _MENDABLE:
            raise
        status = _report(f"{error.filename or 'output'}: {error.strerror}")
    sys.exit(status)


def _report(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2
