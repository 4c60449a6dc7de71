"""Whole commands as tasks of a Ray cluster, each in a process of its own that dies with its node or with the caller."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core import run_main
from learned_sparse.distribute.engine import Engine
from learned_sparse.distribute.workers import MAX_DEATHS, death_reason, enter, worker_environment

KILLED = 137
"""Exit status of a command that died, that of a shell for SIGKILL."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a command takes of a node while it runs."""

    cpus: float = 1
    gpus: float = 0
    memory_gb: float | None = None
    """None: not counted."""


class Commands:
    """Runs commands on a cluster. Use it in a ``with`` block; several threads may run commands at the same time."""

    def __init__(self, engine: Engine, *, variables: Mapping[str, str] | None = None) -> None:
        """``variables``: environment variables of the commands. Nothing is started before the ``with`` block."""
        self._engine, self._variables = engine, variables or {}
        self._exit = contextlib.ExitStack()
        self._running: set[Any] = set()
        self._stopped = False
        self._ray: Any = None
        self.default = Resources()
        """An equal share of the cluster for each of its workers."""

    def __enter__(self) -> Commands:
        self._ray = self._exit.enter_context(self._engine.connected())
        try:
            _, share = self._engine.resources(self._ray)
            self.default = Resources(cpus=share["num_cpus"], gpus=share["num_gpus"])
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._exit.__exit__(*error)

    def run(self, module: str, words: Sequence[str], log: Path, resources: Resources) -> int:
        """Run ``python -m module words`` on a node that has the resources; returns its exit status.

        Its output is appended to ``log``. A command whose node dies is started again elsewhere: what our commands write
        is whole or absent, and they continue. 137: it died ``MAX_DEATHS`` times, or ``stop`` was called.
        """
        memory = {} if resources.memory_gb is None else {"memory": int(resources.memory_gb * 10**9)}
        options: dict[str, Any] = {"num_cpus": resources.cpus, "num_gpus": resources.gpus, **memory}
        run = self._ray.remote(max_calls=1, max_retries=0, **options)(_run)
        environment = worker_environment()
        environment["variables"] |= self._variables
        for _ in range(MAX_DEATHS):
            reference = run.remote(environment, module, list(words), str(log.resolve()))
            self._running.add(reference)
            try:
                return int(self._ray.get(reference))
            except self._ray.exceptions.RayTaskError:
                raise
            except self._ray.exceptions.RayError as error:
                if self._stopped:
                    break
                _log.warning("%s: died (%s)", module, death_reason(error))
                with log.open("a", encoding="utf-8", newline="\n") as file:
                    file.write(f"the process died: {death_reason(error)}\n")
            finally:
                self._running.discard(reference)
        return KILLED

    def stop(self) -> None:
        """End all running commands."""
        self._stopped = True
        for reference in list(self._running):
            self._ray.cancel(reference, force=True)

    def fits(self, resources: Resources) -> bool:
        """Whether a node of the cluster has the resources, free or not."""
        needed = {"CPU": resources.cpus, "GPU": resources.gpus, "memory": (resources.memory_gb or 0) * 1e9}
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        return any(all(node.get(name, 0) >= count for name, count in needed.items()) for node in nodes)


def _run(environment: Mapping[str, Any], module: str, words: Sequence[str], log: str) -> int:
    """Run the command in this process, whose output goes to ``log``; Ray ends the process afterwards."""
    enter(environment)
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8", buffering=1)
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
