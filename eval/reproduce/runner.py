"""Runs the steps of a plan that are not done: in order or several at once, each in a process of its own."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

from eval.reproduce.steps import (
    Kind,
    Step,
    changes,
    examine,
    is_done,
    log_of,
    mark_done,
    mark_failed,
    marker_of,
    ordered,
    run_words,
    unmark,
)
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.files import home
from learned_sparse.core.locks import locked
from learned_sparse.core.settings import parse, read_yaml
from learned_sparse.index.note import INDEX_MANIFEST
from learned_sparse.ray import Resources, Tasks, command_of

_logger = logging.getLogger(__name__)
ON_GPU: tuple[Kind, ...] = ("train", "encode", "encode-queries", "rerank")
"""Steps that compute on a GPU if there is one."""
LOG_LINES = 12
"""Lines at the end of a log that are shown when a step fails."""
_INTERRUPTED = (130, -signal.SIGINT)
"""Exit statuses of a process stopped by Ctrl-C."""
T = TypeVar("T")

Execute = Callable[[Step], str | None]
"""Runs the command of a step; returns the error, or None."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Time of a step in seconds, and its error if it failed."""

    seconds: float
    error: str | None = None


class Runner:
    """Runs the steps of a plan in order. ``failed`` holds the error of failed steps and of steps that need them."""

    def __init__(
        self,
        steps: Sequence[Step],
        execute: Execute,
        stop: Callable[[], None] = lambda: None,
        interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        """``stop`` ends what ``execute`` has started in other threads; it is called on an error.

        ``interrupt`` is called on Ctrl-C, which processes of this machine receive by themselves.
        """
        self._steps, self._execute, self._stop = list(ordered(steps)), execute, stop
        self._interrupt = interrupt
        self._done, self.failed = examine(self._steps)
        self.todo = [step for step in self._steps if step not in self._done and step not in self.failed]
        """Steps that are not done yet, in order; one whose needs are done again with equal output is skipped later."""

    @property
    def done(self) -> int:
        """Number of steps that are done."""
        return len(self._done)

    def run(self, jobs: int = 1) -> None:
        """Run ``todo``, ``jobs`` steps at once; a step of kind "costs" measures times and so runs alone."""
        pool = ThreadPoolExecutor(jobs) if jobs > 1 else _CallingThread()
        running: dict[Future[Outcome], Step] = {}
        try:
            while self.todo or running:
                while len(running) < jobs and (step := self._next(list(running.values()))):
                    self.todo.remove(step)
                    _logger.info("%s %s ...", self._progress(), step.title)
                    running[pool.submit(run_step, step, self._execute, alone=jobs == 1)] = step
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    self._end(running.pop(future), future.result())
        except KeyboardInterrupt:  # processes of this machine save their state
            self._interrupt()
            raise
        except BaseException:
            self._stop()
            raise
        finally:
            pool.shutdown()

    def _next(self, running: Sequence[Step]) -> Step | None:
        """The first step that can start now; steps that need a failed step fail here."""
        for step in list(self.todo):
            if broken := next((need for need in step.needs if need in self.failed), None):
                self.todo.remove(step)
                self.failed[step] = self.failed[broken]
            elif self._done.issuperset(step.needs):
                if is_done(step):  # its needs were done again, with the output they had before
                    self.todo.remove(step)
                    self._done.add(step)
                    continue
                has_costs = any(other.kind == "costs" for other in (step, *running))
                if not (has_costs and running):
                    return step
        return None

    def _end(self, step: Step, outcome: Outcome) -> None:
        if outcome.error is not None:
            _logger.info("%s %s: FAILED\n%s", self._progress(), step.title, outcome.error)
            self.failed[step] = outcome.error
            return
        self._done.add(step)
        _logger.info("%s %s: %.1f s", self._progress(), step.title, outcome.seconds)

    def _progress(self) -> str:
        width = len(str(len(self._steps)))
        return f"[{len(self._done):{width}}/{len(self._steps)}]"


class OwnProcess:
    """Runs each command in a process of its own; its output goes to the log of the step."""

    def __init__(self, *, threads: int | None = None) -> None:
        """``threads``: OMP_NUM_THREADS of each process."""
        self._environment = dict(os.environ) | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
        self._running: set[subprocess.Popen[bytes]] = set()

    def __call__(self, step: Step) -> str | None:
        """Run the command; the error holds the last lines of the log."""
        log = _begun_log(step)
        words = [sys.executable, "-m", step.module, *run_words(step, quiet=True)]
        with log.open("a", encoding="utf-8", newline="\n") as file:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, env=self._environment
            )
        self._running.add(process)
        try:
            status = process.wait()
        except KeyboardInterrupt:  # the process gets the signal too: wait until it has saved its state
            process.wait()
            raise
        except BaseException:
            self.stop()
            raise
        finally:
            self._running.discard(process)
        if status in _INTERRUPTED:
            raise KeyboardInterrupt
        return _failure(step, status, log) if status else None

    def stop(self) -> None:
        """Terminate all running processes and wait for their end."""
        running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


class OnCluster:
    """Runs each command as a task of a Ray cluster, with the resources of its kind of step; output goes to its log."""

    def __init__(self, commands: Tasks, stated: Mapping[str, Resources]) -> None:
        """``stated``: resources of kinds of steps; others take those of one worker, a GPU only in ``ON_GPU``."""
        self._commands, self._stated = commands, stated

    def __call__(self, step: Step) -> str | None:
        """Run the command; the error holds the last lines of the log."""
        default = self._commands.default
        if step.kind not in ON_GPU:
            default = dataclasses.replace(default, gpus=0)
        resources = self._stated.get(step.kind, default)
        if not self._commands.fits(resources):
            return f"{step.command}\nno node of the cluster has what steps of kind {step.kind} need: {resources}"
        log = _begun_log(step)
        status = self._commands.run(step.module, run_words(step, quiet=True), log, resources)
        return _failure(step, status, log) if status else None


class _CallingThread(Executor):
    """Runs submitted work in the calling thread: only the main thread receives signals."""

    def submit(self, run: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        """Run the work now; its exceptions are raised here."""
        future: Future[T] = Future()
        future.set_result(run(*arguments, **options))
        return future


def run_step(step: Step, execute: Execute, *, alone: bool = True) -> Outcome:
    """Run a step whose needs are done, and mark it as done or failed.

    Output of the step with other inputs is renamed first, and removed when the step is done, except a checkpoint,
    which is never removed. Output without a marker stays: the command confirms it, resumes it, or refuses it if it was
    made with other settings. An exception of ``execute`` leaves no marker, so the step is tried again next time.
    """
    started, inputs = time.perf_counter(), step.inputs  # as they are now: a file may change while the step runs
    _set_outdated_aside(step)
    error = None if _is_complete_index(step) else execute(step)
    seconds = time.perf_counter() - started
    missing = [path for path in step.writes if not path.exists()]
    if error is None and missing:
        error = f"{missing[0]}: not written, although the command ended well"
    outdated = [path for path in map(_aside, step.writes) if path.exists()]
    if error is None:
        mark_done(step, inputs, seconds, alone=alone)
        for path in outdated:
            _remove(path)
    else:
        error += f"\nearlier output is kept as {', '.join(map(str, outdated))}" if outdated else ""
        mark_failed(step, error, seconds)
    return Outcome(seconds=seconds, error=error)


def in_this_process(step: Step) -> str | None:
    """Run the command's ``main`` in this process, so that its imports are shared by all steps; print the command."""
    print(f"\n$ {step.command}", flush=True)
    status = command_of(step.module)(run_words(step, quiet=False))
    if status:
        raise LearnedSparseError(f"python -m {step.module}: exit status {status}; see above")
    return None


@contextmanager
def only_one() -> Iterator[None]:
    """Lock the home folder against other runners."""
    with locked(home() / "reproduce"):
        yield


def check_disk_space(steps: Sequence[Step]) -> str:
    """Estimated size of the output of ``steps`` and free space as text; raise if the space does not suffice."""
    needed, free = sum(step.disk_bytes for step in steps), free_bytes()
    if needed > free:
        largest = max(steps, key=lambda step: step.disk_bytes)
        raise LearnedSparseError(
            f"{home()}: about {_size(needed)} are needed and {_size(free)} are free, most for {largest.title} (about "
            f"{_size(largest.disk_bytes)}); make room, choose fewer rows with --row, or set LEARNED_SPARSE_HOME to a "
            "folder on another disk"
        )
    return f"about {_size(needed)} of {_size(free)} free in {home()}"


def read_resources(path: Path | None) -> dict[str, Resources]:
    """What kinds of steps take of a node, of a YAML file: ``train: {cpus: 8, gpus: 1, memory_gb: 40}``."""
    parsed: dict[str, Resources] = {}
    for kind, values in (read_yaml(path) if path else {}).items():
        if kind not in get_args(Kind):
            raise LearnedSparseError(f"{path}: no kind of step {kind!r}{did_you_mean(kind, get_args(Kind))}")
        parsed[kind] = parse(Resources, values, f"{path}: {kind}")
    return parsed


def free_bytes() -> int:
    """Free bytes on the disk of the home folder, which need not exist."""
    folder = home().absolute()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _size(count: float) -> str:
    """A number of bytes for people.

    >>> _size(2_500_000), _size(41e9)
    ('2 MB', '41.0 GB')
    """
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


def _begun_log(step: Step) -> Path:
    """The log of a step, with the command at its end."""
    log = log_of(step)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8", newline="\n") as file:
        file.write(f"$ {step.command}\n")
    return log


def _failure(step: Step, status: int, log: Path) -> str:
    return f"{step.command}\nexit status {status}; {log} ends with\n{_last_lines(log)}"


def _last_lines(log: Path) -> str:
    """The end of a log, indented."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2**16))
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-LOG_LINES:])


def _set_outdated_aside(step: Step) -> None:
    """Rename output that was made with other inputs; the marker goes last, so that a killed renaming is repeated."""
    marker = marker_of(step)
    if marker is None or marker.key == step.key:
        return
    _logger.info("  %s: done again: %s", step.title, "; ".join(changes(marker, step)[:3]))
    for path in step.writes:
        if path.exists() and step.kind == "train":
            kept = _unused(path.with_name(f"{path.name}-{marker.key[:8]}"))
            path.rename(kept)
            _logger.info("  %s: the earlier checkpoint is now %s", step.title, kept)
        elif path.exists():
            _remove(_aside(path))
            path.rename(_aside(path))
    unmark(step)


def _aside(path: Path) -> Path:
    """Name of outdated output until its step is done again."""
    return path.with_name(f".{path.name}.outdated")


def _unused(path: Path) -> Path:
    """``path``, or with a number if there is such a path."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(name for name in itertools.chain([path], numbered) if not name.exists())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _is_complete_index(step: Step) -> bool:
    """Whether the BM25 index of the step exists: it is written whole or not at all, and no command confirms it."""
    return step.kind == "index-bm25" and (step.writes[0] / INDEX_MANIFEST).is_file()
