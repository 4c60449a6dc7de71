"""Processes of one kind on a Ray cluster. A task whose worker died is given to another worker."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from learned_sparse.core import LearnedSparseError
from learned_sparse.distribute.engine import Engine, first_line

MAX_DEATHS = 4
"""Workers that may die with one task, or while they start, before the command gives up."""
SILENT_SECONDS = 600.0
"""Time without any result after which a warning says what is waited for."""
ENVIRONMENT = ("LEARNED_SPARSE_", "OMP_", "MKL_", "HF_HOME", "HF_HUB_", "JAVA_HOME", "PYTHONHASHSEED")
"""Beginnings of the environment variables that workers get from the command."""
_log = logging.getLogger(__name__)


class Workers:
    """A number of equal workers. Use it in a ``with`` block; at its end all workers are stopped.

    A worker is an object that ``factory(*arguments)`` makes in a process of its own, in the folder of the command:
    the cluster must have the same files at the same paths. ``depth`` tasks are given to a worker at a time, each in a
    thread of its own, so that it can read one while it computes another.
    """

    def __init__(self, engine: Engine, factory: Callable[..., Any], *arguments: Any, depth: int = 1) -> None:
        """Nothing is started before the ``with`` block."""
        self._engine, self._depth = engine, depth
        self._making = (factory, arguments, worker_environment())
        self._exit = contextlib.ExitStack()
        self._ray: Any = None
        self._running: dict[Any, tuple[int | None, Any]] = {}
        """References to running calls: the number of the task (None: the start of a worker), and the worker."""
        self._ready: list[Any] = []
        """Workers that have started, in this order."""
        self._deaths_at_start = 0
        self.count = 0
        """Number of workers."""
        self.cpus = 1
        """Processors of each worker."""

    def __enter__(self) -> Workers:
        self._ray = self._exit.enter_context(self._engine.connected())
        try:
            self.count, self._resources = self._engine.resources(self._ray)
            self.cpus = int(self._resources["num_cpus"])
            _log.info("%d workers with %s", self.count, _described(self._resources))
            for _ in range(self.count):
                self._start()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in [*self._ready, *(worker for number, worker in self._running.values() if number is None)]:
            with contextlib.suppress(Exception):
                self._ray.kill(worker)
        self._exit.__exit__(kind, error, traceback)

    def call(self, method: str, *arguments: Any) -> Any:
        """The result of one call of ``method``, by any worker."""
        ((_, result),) = self.map(method, [arguments])
        return result

    def map(self, method: str, tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """``(number, result)`` of ``method(*task)`` for each of ``tasks``, as they end; each ends exactly once.

        Task i goes to worker i (modulo their number) if that one is free. ``LearnedSparseError``: one that a task
        raises; workers died with one task ``MAX_DEATHS`` times; no worker could be started.
        """
        waiting, deaths = deque(range(len(tasks))), [0] * len(tasks)
        last = time.monotonic()
        while waiting or any(number is not None for number, _ in self._running.values()):
            self._hand_out(method, tasks, waiting)
            ready, _ = self._ray.wait(list(self._running), timeout=1.0)
            for reference in ready:
                number, worker = self._running.pop(reference)
                result, death = self._result(reference)
                if death is not None:
                    self._lose(worker, number, death)
                    if number is not None:
                        deaths[number] += 1
                        self._check_deaths(deaths[number], death)
                        waiting.appendleft(number)
                elif number is None:
                    self._ready.append(worker)
                    self._deaths_at_start = 0
                else:
                    yield number, result
                last = time.monotonic()
            last = self._check_waiting(last)

    def _hand_out(self, method: str, tasks: Sequence[tuple[Any, ...]], waiting: deque[int]) -> None:
        """Give tasks to the workers that have started and are free."""
        for _ in range(self._depth):
            load = [sum(busy is worker for _, busy in self._running.values()) for worker in self._ready]
            for position, worker in enumerate(self._ready):
                if not waiting:
                    return
                if load[position] < self._depth:
                    own = (number for number in waiting if number % len(self._ready) == position)
                    number = next(own, waiting[0])
                    waiting.remove(number)
                    reference = worker.call.remote(method, *tasks[number])
                    self._running[reference] = (number, worker)

    def _result(self, reference: Any) -> tuple[Any, str | None]:
        """The result of a call, or the reason why its worker died; an error that the call raised is raised here."""
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(reference), None
        except exceptions.RayTaskError as error:
            if isinstance(error.cause, LearnedSparseError | OSError):
                raise error.cause from None
            raise  # with the traceback of the worker
        except exceptions.RayError as error:
            return None, death_reason(error)

    def _lose(self, worker: Any, number: int | None, reason: str) -> None:
        """Forget a worker that died, and start another one."""
        if worker in self._ready or number is None:  # else its other task has reported it
            _log.warning("a worker died (%s)%s", reason, "" if number is None else "; another one gets its task")
            self._ready = [other for other in self._ready if other is not worker]
            with contextlib.suppress(Exception):
                self._ray.kill(worker)  # one that was only unreachable must not go on
            if number is None:
                self._deaths_at_start += 1
                self._check_deaths(self._deaths_at_start, reason)
            self._start()

    def _start(self) -> None:
        """Start a worker, which may wait until a node has room for it."""
        options = {**self._resources, "max_restarts": 0, "max_concurrency": self._depth}
        worker = self._ray.remote(**options)(_Worker).remote()
        self._running[worker.start.remote(*self._making)] = (None, worker)

    def _check_deaths(self, deaths: int, reason: str) -> None:
        if deaths >= MAX_DEATHS:
            way_out = "give fewer --workers" if "memory" in reason else "see the logs of Ray on that node"
            raise LearnedSparseError(f"{deaths} workers died with the same task, the last one: {reason}; {way_out}")

    def _check_waiting(self, last: float) -> float:
        """Raise if no worker starts; warn if nothing ends. Returns the time from which to count on."""
        silent = time.monotonic() - last
        if not self._ready and silent > self._engine.start_seconds:
            free = {name: count for name, count in self._ray.available_resources().items() if name in {"CPU", "GPU"}}
            raise LearnedSparseError(
                f"no worker could start in {silent:.0f} s: each needs {_described(self._resources)}, and free are "
                f"{free.get('CPU', 0):g} processors and {free.get('GPU', 0):g} GPUs; stop other jobs, or give fewer "
                "--workers or --gpus-per-worker"
            )
        if silent > SILENT_SECONDS:
            nodes = [node for node in self._ray.nodes() if node["Alive"]]
            _log.warning("no result in %.0f s; %d workers on %d nodes are busy", silent, len(self._ready), len(nodes))
            return time.monotonic()
        return last


class _Worker:
    """The process of one worker."""

    def __init__(self) -> None:
        self._object: Any = None

    def start(self, factory: Callable[..., Any], arguments: Sequence[Any], environment: Mapping[str, Any]) -> None:
        """Make the object; an error of it is an error of the command."""
        enter(environment)
        self._object = factory(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._object, method)(*arguments)


def worker_environment() -> dict[str, Any]:
    """Folder, module path and environment variables of this process, for ``enter``."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(ENVIRONMENT)}
    return {"folder": str(Path.cwd()), "path": [path for path in sys.path if path], "variables": variables}


def enter(environment: Mapping[str, Any]) -> None:
    """Make this process like the one that gave ``environment``; an error if its folder is missing here."""
    os.environ.update(environment["variables"])
    sys.path += [path for path in environment["path"] if path not in sys.path]
    try:
        os.chdir(environment["folder"])
    except OSError as error:
        raise LearnedSparseError(
            f"node {socket.gethostname()}: {environment['folder']}: {error.strerror}; a cluster needs the same files "
            "at the same paths on all nodes, such as a network file system"
        ) from None


def death_reason(error: Exception) -> str:
    """Why a worker died, in a few words."""
    text = str(error)
    if "OutOfMemory" in type(error).__name__ or "memory monitor" in text.lower() or "low on memory" in text.lower():
        return "out of memory"
    for phrase, reason in (
        ("node has died", "its node died"),
        ("node was terminated", "its node died"),
        ("worker process has died", "its process was killed, perhaps for lack of memory"),
    ):
        if phrase in text:
            return reason
    return first_line(error)


def _described(resources: Mapping[str, float]) -> str:
    return f"{resources['num_cpus']:g} processors and {resources['num_gpus']:g} GPUs"
