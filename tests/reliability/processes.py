"""Commands that are disturbed, in forks of a process that has imported them, so that a killed run costs no imports.

``multiprocessing`` starts that process, its fork server.
"""

from __future__ import annotations

import atexit
import errno
import functools
import gc
import itertools
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1",
}  # fmt: skip
MODULES = [
    "encoders.train", "encoders.training.loop", "encoders.encoding.encoder", "learned_sparse.encode.__main__",
    "learned_sparse.index.__main__", "learned_sparse.jsonvector.__main__", "learned_sparse.search.__main__",
    "encodings.utf_8_sig", "jnius_config", "scipy.sparse", "torch._dynamo", "tqdm",
    "transformers.models.bert.modeling_bert", "transformers.models.bert.tokenization_bert",
    "transformers.models.auto.modeling_auto",
]  # fmt: skip
"""What the commands import, in the process that is forked."""
BLOCKED = (signal.SIGINT, signal.SIGTERM)
"""Signals that wait until a forked process has become the command."""
EVENTS = frozenset({
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree",
    "shutil.copyfile", "shutil.move", "subprocess.Popen", "tests.fsync",
})  # fmt: skip
"""Audit events, besides opening a file for writing, at which a run may be killed."""
MAX_SECONDS = 120
"""A run that takes longer is killed and reported with status -9 and ``hung``."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a run ended."""

    status: int
    """Exit status; negative for a signal."""
    seconds: float
    events: int
    """File operations that write."""
    hung: bool
    output: str
    """Standard output and standard error."""

    def error(self) -> str:
        """The one line of a command that ended with status 2."""
        errors = [line for line in self.output.splitlines() if line.startswith("error: ")]
        assert (self.status, len(errors), self.hung) == (2, 1, False), self.output
        assert "Traceback" not in self.output, self.output
        return errors[0]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a command, and what happens to it: a signal after ``after`` seconds or before operation ``event``."""

    command: str
    """The words after ``python -m``."""
    folder: Path
    """Working directory."""
    delay: float = 0.0
    """Seconds before the command begins."""
    signal: int = 0
    after: float | None = None
    event: int | None = None
    faults: Mapping[str, int] = field(default_factory=dict)
    """See ``install_faults``."""


@functools.cache
def _server() -> ForkServerContext:
    """The fork server; it starts with ``ENVIRONMENT``."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(MODULES)
    with mock.patch.dict(os.environ, ENVIRONMENT):
        forkserver.ensure_running()
    return server


def run_all(*runs: Run) -> list[Result]:
    """Run all ``runs`` at the same time; returns when all have ended."""
    _server()
    with ThreadPoolExecutor(len(runs)) as pool:
        return list(pool.map(run_one, runs))


def run_one(run: Run) -> Result:
    """Run a command, and disturb it."""
    server = _server()
    counter, (reader, writer) = server.RawValue("q"), server.Pipe(duplex=False)  # no file: its size may be limited
    process = server.Process(target=become, args=(run, counter, writer))
    process.start()
    writer.close()
    assert process.pid
    os.read(reader.fileno(), 1)  # it begins
    start, output = time.monotonic(), b""
    signals: list[tuple[float, int]] = [(MAX_SECONDS, signal.SIGKILL)]
    if run.after is not None:
        signals.insert(0, (run.after, run.signal))
    while True:
        seconds = time.monotonic() - start
        ready = wait([process.sentinel, reader.fileno()], signals[0][0] - seconds if signals else None)
        if reader.fileno() in ready and (piece := os.read(reader.fileno(), 2**16)):
            output += piece
        elif process.sentinel in ready:
            break
        elif not ready:
            os.kill(process.pid, signals.pop(0)[1])
    process.join()
    assert process.exitcode is not None
    return Result(
        status=process.exitcode, seconds=seconds, events=counter.value, hung=not signals,
        output=output.decode("utf-8", errors="replace"),
    )  # fmt: skip


def become(run: Run, counter: Any, output: Connection) -> NoReturn:
    """Turn this process, which has just been forked, into the command."""
    gc.freeze()  # what the imports left: Python ignores a signal that arrives in a finaliser of another package
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    os.setsid()
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.chdir(run.folder)
    top = os.getpid()

    def count() -> None:
        counter.value += 1  # in memory that the forked processes share
        if counter.value == run.event:
            os.kill(top, run.signal)

    os.write(1, b"\n")
    time.sleep(run.delay)
    install_faults(run.faults, count)
    tqdm.get_lock()  # tqdm fails if it is interrupted while it makes its lock
    run_command(*run.command.split())


def install_faults(faults: Mapping[str, int], count: Callable[[], None]) -> None:
    """Apply ``faults`` to this process; ``count`` is called before each file operation.

    * ``file_bytes``, ``memory_bytes``: limits (``RLIMIT_FSIZE``, ``RLIMIT_AS``; memory on top of what is in use)
    * ``fsync``: the number of the call of ``os.fsync`` that fails with an I/O error
    """
    fsync, calls = os.fsync, itertools.count(1)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS or (event == "open" and writes(*arguments)):
            count()

    def failing_fsync(file: Any) -> None:
        sys.audit("tests.fsync")
        if next(calls) == faults.get("fsync"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(file)

    os.fsync = failing_fsync  # type: ignore[assignment]
    sys.addaudithook(audit)
    if size := faults.get("file_bytes"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    if size := faults.get("memory_bytes"):
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123  (not counted as a write)
            used = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + size, used + size))


def writes(path: Any, mode: Any, flags: Any) -> bool:
    """Whether the arguments of the audit event ``open`` open a path for writing."""
    if isinstance(path, int):
        return False
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) if isinstance(flags, int) else (mode or "r")[0] != "r"


def run_command(module: str, *arguments: str) -> NoReturn:
    """Run ``python -m module arguments`` in this process, and end it."""
    from learned_sparse.core.errors import run_main
    from learned_sparse.ray import command_of

    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = [module, *arguments]
    status: Any = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        run_main(command_of(module))
    except SystemExit as end:
        status = end.code
    except KeyboardInterrupt:  # before run_main can handle it
        status = 130
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # other packages print a traceback when their clean-up is interrupted
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # a full disk
        status = status or 1
    os._exit(status if isinstance(status, int) else 0)
