"""A program that has imported every command and forks a process for each run, so that a killed run costs no imports.

It reads one line of JSON from standard input, a list of runs to start at the same time, and prints a line with their
results. ``tests.reliability.commands`` is the client and explains the fields of a run.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

from tests.reliability import faults

MODULES = (
    "encoders.teach.__main__", "encoders.teach.scoring", "encoders.train", "encoders.training",
    "encoders.encoding.encoder", "eval.costs", "eval.evaluate",
    "eval.reproduce.__main__", "eval.reproduce.leaderboard", "eval.reproduce.matrix_file",
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
        self._after, self._signal, self._target = run.get("after"), run.get("signal", 0), run.get("target", "top")
        self._counter = mmap.mmap(-1, 8)
        self.result: dict[str, Any] | None = None
        self._started, self._output = time.monotonic(), b""
        self._pipe, output = os.pipe()  # no file: its size may be limited
        signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
        self._pid = os.fork()
        if self._pid == 0:
            _become(run, self._counter, output)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        os.close(output)
        os.set_blocking(self._pipe, False)

    def poll(self) -> None:
        """Send the signal when it is due, and keep the result when the process has ended."""
        if self.result is not None:
            return
        seconds = time.monotonic() - self._started
        self._read()
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid:
            events = struct.unpack("q", self._counter[:8])[0]
            code = os.waitstatus_to_exitcode(status)
            hung = seconds > MAX_SECONDS
            self._read()
            os.close(self._pipe)
            output = self._output.decode("utf-8", errors="replace")
            self.result = {
                "pid": pid, "status": code, "seconds": seconds, "events": events, "hung": hung, "output": output,
            }  # fmt: skip
        elif seconds > MAX_SECONDS:
            os.killpg(self._pid, signal.SIGKILL)
        elif self._after is not None and seconds >= self._after:
            self._after = None
            _send(self._signal, self._pid, self._target)

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while content := os.read(self._pipe, 2**16):
                self._output += content


def _send(number: int, pid: int, target: str) -> None:
    try:
        if target == "group":
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:  # not a group leader yet
        os.kill(pid, number)


def _become(run: dict[str, Any], counter: mmap.mmap, output: int) -> NoReturn:
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.chdir(run["folder"])
    os.environ.update(run.get("environment", {}))
    top = os.getpid()
    begun = not run.get("at")

    def count(path: str) -> None:
        nonlocal begun
        begun = begun or run["at"] in path
        if not begun:
            return
        number = struct.unpack("q", counter[:8])[0] + 1
        counter[:8] = struct.pack("q", number)
        if number == run.get("event"):
            _send(run["signal"], os.getpid() if run.get("target") == "self" else top, run.get("target", "top"))

    time.sleep(run.get("delay", 0.0))
    faults.install(run.get("faults", {}), count)
    run_command(run["module"], run["arguments"])


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
    importlib.import_module("encoders.teach.scoring").BLOCK = 16  # type: ignore[attr-defined]  # several blocks
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
