"""Commands as tasks of a Ray cluster: the shards of an encoding, the steps of a leaderboard.

A task runs in a process of its own, which ends with it. Ray starts the task again if that process or its node dies.
What a task writes is whole or absent, and the same bytes each time, so nothing is lost and nothing is there twice.
Nodes need the same files at the same paths. Ray is an extra (``learned-sparse[ray]``).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import os
import re
import shlex
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import LearnedSparseError, progress_bar, run_main
from learned_sparse.core.lazy import import_extra
from learned_sparse.core.machine import processors

ATTEMPTS = 4
"""Processes that may die with one task before the command gives up."""
KILLED = 137
"""Exit status of a command that died ``ATTEMPTS`` times, that of a shell for SIGKILL."""
ENVIRONMENT = ("LEARNED_SPARSE_", "MKL_", "HF_HOME", "HF_HUB_", "JAVA_HOME", "PYTHONHASHSEED")
"""Prefixes of the environment variables that tasks get from the command. Ray sets ``OMP_NUM_THREADS`` itself."""
_OBJECT_STORE_BYTES = 2**28
"""Shared memory of a Ray that a command starts. Results are small: texts and vectors travel as files."""
_CONNECT_SECONDS = 10.0
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a task takes of a node while it runs."""

    cpus: float = 1
    gpus: float = 0


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The Ray cluster of a command, and how many tasks share it."""

    address: str | None = None
    """``HOST:PORT`` of a running Ray, or ``auto`` for that of this machine; None: start one for this command."""
    workers: int | None = None
    """Tasks at a time; None: one for each GPU, or for each node of a cluster without GPUs."""
    gpus_per_worker: float | None = None
    """None: 1 if the cluster has GPUs, else 0. A share such as 0.5 puts several tasks on one GPU."""

    @classmethod
    def from_options(cls, options: argparse.Namespace) -> Engine | None:
        """The engine of the options of ``add_engine_options``; None for one process."""
        values = {name: getattr(options, name) for name in ("address", "workers", "gpus_per_worker")}
        if options.engine == "ray":
            return cls(**values)
        for name, value in values.items():
            if value is not None:
                raise LearnedSparseError(f"--{name.replace('_', '-')} {value}: belongs to --engine ray; give that too")
        return None

    @contextlib.contextmanager
    def connected(self) -> Iterator[Any]:
        """The module ``ray``, connected; its tasks end with the block."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray = import_extra("ray", "ray")
        if ray.is_initialized():  # by the caller, who also ends it
            yield ray
            return
        options: dict[str, Any] = {"address": self.address or "local", "log_to_driver": False, "logging_level": "ERROR"}
        if self.address is None:
            options |= {"num_cpus": processors(), "include_dashboard": False}
            options["object_store_memory"] = _OBJECT_STORE_BYTES
        elif self.address != "auto":
            _check_reachable(self.address)
        before = signal.getsignal(signal.SIGTERM)
        try:
            with _fault_handlers_kept():
                ray.init(**options)
        except (ConnectionError, RuntimeError, TimeoutError, ValueError) as error:
            raise LearnedSparseError(
                f"--address {options['address']}: Ray does not start: {_first_line(error)}"
            ) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)  # Ray's own handler would change the exit status
        try:
            yield ray
        finally:
            with _fault_handlers_kept():
                ray.shutdown()

    @contextlib.contextmanager
    def tasks(self, **variables: str) -> Iterator[Tasks]:
        """Tasks on the cluster; they end with the block. ``variables``: further environment variables of theirs."""
        with self.connected() as ray:
            yield Tasks(ray, *self.share(ray), variables)

    def share(self, ray: Any) -> tuple[int, Resources]:
        """Number of tasks at a time, and an equal share of the cluster for each of them."""
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
        all_gpus = sum(node.get("GPU", 0) for node in nodes)
        gpus = (1 if all_gpus else 0) if self.gpus_per_worker is None else self.gpus_per_worker
        if gpus < 0 or (gpus > 1 and gpus != int(gpus)):
            raise LearnedSparseError(f"--gpus-per-worker {gpus}: give a whole number, or a share below 1")
        workers = self.workers or (sum(int(node.get("GPU", 0) / gpus) for node in nodes) if gpus else len(nodes))
        for cpus in range(int(max((node["CPU"] for node in nodes), default=0)), 0, -1):
            fitting = (min(node["CPU"] // cpus, node.get("GPU", 0) // gpus if gpus else workers) for node in nodes)
            if sum(map(int, fitting)) >= workers > 0:
                return workers, Resources(cpus=cpus, gpus=gpus)
        cores = sum(node["CPU"] for node in nodes)
        raise LearnedSparseError(
            f"{workers or 1} workers with 1 processor and {gpus:g} GPUs each do not fit into the {len(nodes)} nodes of "
            f"this Ray ({cores:g} processors, {all_gpus:g} GPUs); give fewer --workers or --gpus-per-worker"
        )


class Tasks:
    """Runs commands on a cluster (``Engine.tasks``); several threads may run them."""

    def __init__(self, ray: Any, workers: int, default: Resources, variables: Mapping[str, str]) -> None:
        own = {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
        self._place = (str(Path.cwd()), [path for path in sys.path if path], own | dict(variables))
        self._running: set[Any] = set()
        self._ray = ray
        self.workers = workers
        """Tasks at a time."""
        self.default = default
        """An equal share of the cluster for each of them."""

    def run(self, module: str, words: Sequence[str], log: Path, resources: Resources | None = None) -> int:
        """Exit status of ``python -m module words`` on a node that has the ``resources``, by default an equal share.

        Its output is appended to ``log``. 137: it died ``ATTEMPTS`` times, or ``stop`` was called.
        """
        share = resources or self.default
        remote = self._ray.remote(num_cpus=share.cpus, num_gpus=share.gpus, max_calls=1, max_retries=ATTEMPTS - 1)(
            _run_command
        )
        reference = remote.remote(self._place, module, list(words), str(log.resolve()))
        self._running.add(reference)
        try:
            return int(self._ray.get(reference))
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, LearnedSparseError) else error from None
        except self._ray.exceptions.RayError as error:
            problem = f"the process died {ATTEMPTS} times, perhaps for lack of memory ({_first_line(error)})"
            with log.open("a", encoding="utf-8", newline="\n") as file:
                file.write(f"{problem}; give fewer --workers\n")
            return KILLED
        finally:
            self._running.discard(reference)

    def run_all(self, module: str, commands: Mapping[Path, Sequence[str]], description: str) -> None:
        """``run`` commands, ``{log: words}``, under a progress bar; the first that fails ends the others and raises."""
        with ThreadPoolExecutor(len(commands)) as threads:
            logs = {threads.submit(self.run, module, words, log): log for log, words in commands.items()}
            try:
                for future in progress_bar(as_completed(logs), description, "shards", len(logs)):
                    if status := future.result():
                        log = logs[future]
                        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() or [f"status {status}"]
                        command = shlex.join(["python", "-m", module, *commands[log]])
                        reason = lines[-1].removeprefix("error: ")
                        raise LearnedSparseError(f"{reason} (in: {command}; its output is in {log})")
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """End all running tasks."""
        for reference in list(self._running):
            self._ray.cancel(reference, force=True)


def _run_command(
    place: tuple[str, Sequence[str], Mapping[str, str]], module: str, words: Sequence[str], log: str
) -> int:
    """Exit status of a command in this process, with the folder, module path and environment variables of ``place``."""
    folder, path, variables = place
    os.environ.update(variables)
    sys.path += [entry for entry in path if entry not in sys.path]
    try:
        os.chdir(folder)
    except OSError as error:
        raise LearnedSparseError(
            f"node {socket.gethostname()}: {folder}: {error.strerror}; a cluster needs the same files at the same "
            "paths on all nodes, such as a network file system"
        ) from None
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for number in (1, 2):
        os.dup2(file, number)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(file), "w", encoding="utf-8", buffering=1) for _ in range(2))
    sys.argv = [module, *words]
    try:
        run_main(command_of(module))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001  (as the interpreter would end a command)
        traceback.print_exc()
        return 1


def command_of(name: str) -> Callable[[list[str] | None], int]:
    """The ``main`` of ``python -m name``."""
    module = importlib.import_module(name)
    if hasattr(module, "__path__"):  # a package: its command is in __main__
        module = importlib.import_module(f"{name}.__main__")
    main: Callable[[list[str] | None], int] = module.main
    return main


@contextlib.contextmanager
def _fault_handlers_kept() -> Iterator[None]:
    """Keep the handlers of memory faults: Java needs its own, which Ray replaces and, at its end, removes."""
    system = ctypes.CDLL(None)
    handlers = {number: ctypes.create_string_buffer(256) for number in _FAULTS}  # larger than any struct sigaction
    for number, handler in handlers.items():
        system.sigaction(number, None, handler)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            system.sigaction(number, handler, None)


def _first_line(error: BaseException) -> str:
    """First line of the message of an error of Ray, without colours."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".:")


def _check_reachable(address: str) -> None:
    """Raise if nothing listens at ``address``: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError, ValueError) as error:
        raise LearnedSparseError(
            f"--address {address}: no Ray answers there ({error}); give HOST:PORT of a head node (ray start --head), "
            "auto for this machine's, or omit the option"
        ) from error
