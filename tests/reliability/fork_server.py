"""A program that has imported every command and forks a process for each run, so that a killed run costs no imports.

It reads one line of JSON from standard input, a list of runs to start at the same time, and prints a line with their
results. ``tests.reliability.commands`` is the client and explains the fields of a run.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import importlib
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

MODULES = (
    "encoders.teach.__main__", "encoders.teach.scorers", "encoders.train", "encoders.training.recipe",
    "encoders.encoding.encoder", "eval.costs", "eval.evaluate",
    "eval.reproduce.__main__", "eval.reproduce.leaderboard", "eval.reproduce.matrix",
    "eval.reproduce.plan", "eval.reproduce.prepare", "eval.reproduce.runner", "eval.reproduce.steps",
    "learned_sparse.encode.__main__", "learned_sparse.export.__main__", "learned_sparse.index.__main__",
    "learned_sparse.jsonvector.__main__",
    "learned_sparse.search.__main__", "encodings.utf_8_sig", "jnius_config", "scipy.sparse", "tqdm",
    "matplotlib.backends.backend_svg", "matplotlib.font_manager",
    "transformers.models.bert.modeling_bert", "transformers.models.bert.tokenization_bert",
    "transformers.models.auto.modeling_auto",
)  # fmt: skip
IMPORTED_BY_PYSERINI = ("faiss", "openai", "requests", "scipy.stats", "sentencepiece", "tiktoken")
"""Imported if installed. Pyserini itself needs Java, and other packages that it imports start threads."""
BLOCKED = (signal.SIGINT, signal.SIGTERM)
"""Signals that wait until a forked process has become the command."""
EVENTS = frozenset({
    "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "shutil.rmtree",
    "shutil.copyfile", "shutil.move", "subprocess.Popen", "tests.fsync",
})  # fmt: skip
"""Audit events, besides opening a file for writing, at which a run may be killed or a folder may vanish."""
NOBODY = 65534
MAX_SECONDS = 120
"""A run that takes longer is killed and reported with status -9 and ``hung``."""


class ForkedProcess:
    """In place of ``subprocess.Popen`` for ``[python, "-m", module, *arguments]``: a fork that has the imports."""

    def __init__(self, command: list[str], *, env: dict[str, str], stdout: Any, **_: Any) -> None:
        self.returncode: int | None = None
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)  # a handler that raises within os.fork would be ignored
        self.pid = os.fork()
        if self.pid > 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        else:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(stdout.fileno(), 1)
            os.dup2(stdout.fileno(), 2)
            os.environ.clear()
            os.environ.update(env)
            run_command(command[2], command[3:])

    def wait(self) -> int:
        """Exit status, negative for a signal."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)


def run_command(module: str, arguments: list[str]) -> NoReturn:
    """Run ``python -m module arguments`` in this process, and end it."""
    from learned_sparse.core.errors import run_main

    sys.stdout, sys.stderr = (open(number, "w", buffering=1, closefd=False) for number in (1, 2))  # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.argv = [module, *arguments]
    status: Any = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        run_main(main_of(module))
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


def main_of(module: str) -> Callable[[list[str] | None], int]:
    """The ``main`` of ``python -m module``."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__path__"):
        loaded = importlib.import_module(f"{module}.__main__")
    main: Callable[[list[str] | None], int] = loaded.main
    return main


class Running:
    """One forked run."""

    def __init__(self, run: dict[str, Any]) -> None:
        self._run, self._counter = run, multiprocessing.RawValue("q")
        self.result: dict[str, Any] | None = None
        self._started, self._output = time.monotonic(), b""
        self._pipe, output = os.pipe()  # no file: its size may be limited
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        self._pid = os.fork()
        if self._pid == 0:
            become(run, self._counter, output)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        os.close(output)
        os.set_blocking(self._pipe, False)

    def poll(self) -> None:
        """Send the signal when it is due, and keep the result when the process has ended."""
        if self.result is not None:
            return
        seconds, after = time.monotonic() - self._started, self._run["after"]
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        with contextlib.suppress(BlockingIOError):
            while content := os.read(self._pipe, 2**16):
                self._output += content
        if pid:
            os.close(self._pipe)
            self.result = {
                "status": os.waitstatus_to_exitcode(status), "seconds": seconds, "hung": seconds > MAX_SECONDS,
                "events": self._counter.value, "output": self._output.decode("utf-8", errors="replace"),
            }  # fmt: skip
        elif seconds > MAX_SECONDS:
            os.killpg(self._pid, signal.SIGKILL)
        elif after is not None and seconds >= after:
            self._run["after"] = None
            send(self._run, self._pid)


def send(run: Mapping[str, Any], pid: int) -> None:
    """Send the signal of ``run`` to the process, or to its group."""
    try:
        (os.killpg if run["target"] == "group" else os.kill)(pid, run["signal"])
    except ProcessLookupError:  # not a group leader yet
        os.kill(pid, run["signal"])


def become(run: dict[str, Any], counter: Any, output: int) -> NoReturn:
    """Turn this process, which has just been forked, into the command."""
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(run["folder"])
    os.environ.update(run["environment"])
    if Path("library").is_dir():  # a part of the standard library, for the collection pydoc
        pydoc = importlib.import_module("learned_sparse.collections.pydoc")
        pydoc.standard_library = lambda: Path("library").absolute()  # type: ignore[attr-defined]
    top = os.getpid()

    def count() -> None:
        counter.value += 1  # in memory that the forked processes share
        if counter.value == run["event"]:
            send(run, top)

    time.sleep(run["delay"])
    install_faults(run["faults"], count)
    run_command(run["module"], run["arguments"])


def install_faults(faults: Mapping[str, Any], count: Callable[[], None]) -> None:
    """Apply ``faults`` to this process; ``count`` is called before each file operation.

    * ``file_bytes``, ``memory_bytes``: limits (``RLIMIT_FSIZE``, ``RLIMIT_AS``; memory on top of what is in use)
    * ``fsync``: the number of the call of ``os.fsync`` that fails with an I/O error
    * ``vanish``: ``[number, folder]``, the folder is removed before that file operation
    * ``nobody``: run without the rights of root
    """
    numbers = {"event": 0, "fsync": 0}
    vanish_at, folder = faults.get("vanish", (0, ""))
    fsync = os.fsync

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in EVENTS and not (event == "open" and writes(*arguments)):
            return
        count()
        numbers["event"] += 1
        if numbers["event"] == vanish_at:
            shutil.rmtree(folder, ignore_errors=True)

    def failing_fsync(file: Any) -> None:
        sys.audit("tests.fsync")
        numbers["fsync"] += 1
        if numbers["fsync"] == faults.get("fsync"):
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
    if faults.get("nobody") and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def writes(path: Any, mode: Any, flags: Any) -> bool:
    """Whether the arguments of the audit event ``open`` open a path for writing."""
    if isinstance(path, int):
        return False
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) if isinstance(flags, int) else (mode or "r")[0] != "r"


def main() -> None:
    """Serve until standard input ends."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for module in MODULES:
        importlib.import_module(module)
    for module in IMPORTED_BY_PYSERINI:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(module)
    import torch

    torch.set_num_threads(1)
    torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))])  # imports, too
    importlib.import_module("encoders.teach.__main__").BLOCK = 16  # type: ignore[attr-defined]  # several blocks
    runner = importlib.import_module("eval.reproduce.runner")
    runner.subprocess = SimpleNamespace(  # type: ignore[attr-defined]
        Popen=ForkedProcess, DEVNULL=subprocess.DEVNULL, STDOUT=subprocess.STDOUT
    )
    if (threads := threading.active_count()) != 1:
        raise RuntimeError(f"{threads} threads; a fork would lose them")
    print("ready", file=channel, flush=True)
    for line in sys.stdin:
        running = [Running(run) for run in json.loads(line)]
        while any(each.result is None for each in running):
            for each in running:
                each.poll()
            time.sleep(0.0005)
        print(json.dumps([each.result for each in running]), file=channel, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
