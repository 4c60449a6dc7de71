"""Runs the steps of a plan that are not done: in processes of their own, one or several, or as tasks of Ray."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import logging
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial

from eval.reproduce.steps import Record, Step, examine, file_of, log_of, other_versions, record_of, run_words, write_end
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import home, locked
from learned_sparse.index.note import INDEX_MANIFEST
from learned_sparse.ray import Engine, Tasks, command_of

_logger = logging.getLogger(__name__)
MAX_WAITING_STEPS = 32
"""Steps that are given to a cluster at a time; Ray starts those that fit."""
ON_GPU = ("train", "encode", "encode-queries", "rerank")
"""Steps that compute on a GPU if there is one."""
LOG_LINES = 12
"""Lines at the end of a log that are shown when a step fails."""
_INTERRUPTED = (130, -signal.SIGINT)
"""Exit statuses of a process stopped by Ctrl-C."""
Execute = Callable[[Step], int]
"""Runs the command of a step, whose output goes to ``log_of(step)``; returns its exit status."""


class Runner:
    """Runs the steps of a plan in order. ``failed`` holds the error of failed steps and of steps that need them."""

    def __init__(self, steps: Sequence[Step], execute: Execute, stop: Callable[[], None] = lambda: None) -> None:
        """``steps`` stand after those that they need. ``stop`` ends what ``execute`` has started, on an error."""
        self._steps, self._execute, self._stop = steps, execute, stop
        done, self.failed = examine(steps)
        self.todo = [step for step in steps if step not in done and step not in self.failed]
        """Steps that are not done yet, in order."""
        self.done = {step: record.seconds for step in done if (record := record_of(step))}
        """Seconds of each step that is done."""

    def run(self, jobs: int = 1) -> None:
        """Run ``todo``, ``jobs`` steps at once; a step of kind "costs" measures times and so runs alone."""
        running: dict[Future[Record], Step] = {}
        with ThreadPoolExecutor(jobs) as pool:
            try:
                while self.todo or running:
                    while len(running) < jobs and (step := self._next(list(running.values()))):
                        self.todo.remove(step)
                        _logger.info("%s %s ...%s", self._progress(), step.title, self._time_left(jobs))
                        if jobs > 1:
                            running[pool.submit(run_step, step, self._execute, alone=False)] = step
                        else:  # in this thread: only the main thread receives signals
                            self._end(step, run_step(step, self._execute))
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        self._end(running.pop(future), future.result())
            except BaseException:
                self._stop()
                raise

    def _next(self, running: Sequence[Step]) -> Step | None:
        """The first step that can start now; steps that need a failed step fail here."""
        for step in list(self.todo):
            if broken := next((need for need in step.needs if need in self.failed), None):
                self.todo.remove(step)
                self.failed[step] = self.failed[broken]
            elif self.done.keys() >= set(step.needs):
                has_costs = any(other.kind == "costs" for other in (step, *running))
                if not (has_costs and running):
                    return step
        return None

    def _end(self, step: Step, record: Record) -> None:
        if record.error is None:
            self.done[step], ended = record.seconds, f"{record.seconds:.1f} s"
        else:
            self.failed[step], ended = record.error, f"FAILED\n{record.error}"
        _logger.info("%s %s: %s", self._progress(), step.title, ended)

    def _time_left(self, jobs: int) -> str:
        """The time of the steps that have not finished, in words; empty before one has.

        Each is expected to take as long as the finished steps of its kind on average, or else as those of any kind.
        """
        if not self.done:
            return ""
        of_kind: dict[str, list[float]] = {}
        for step, seconds in self.done.items():
            of_kind.setdefault(step.kind, []).append(seconds)
        left = (step.kind for step in self._steps if step not in self.done and step not in self.failed)
        expected = sum(statistics.fmean(of_kind.get(kind) or self.done.values()) for kind in left)
        return f" (about {_duration(expected / jobs)} left)"

    def summary(self, title: str, written: Sequence[Step]) -> str:
        """``title``, numbers of steps, and disk space; raises if the disk is too full for what ``written`` write."""
        return f"{title}, {len(self._steps)} steps, {len(self.done)} done; {check_disk_space(written)}"

    def _progress(self) -> str:
        width = len(str(len(self._steps)))
        return f"[{len(self.done):{width}}/{len(self._steps)}]"


def run_steps(
    title: str, steps: Sequence[Step], options: argparse.Namespace, engine: Engine | None
) -> Mapping[Step, str]:
    """Run the steps that are not done as ``options`` say; returns the errors of those that failed."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(home() / "reproduce"))  # against other runners
        if engine:
            variables = {"OMP_NUM_THREADS": str(options.threads)} if options.threads else {}
            commands = stack.enter_context(engine.tasks(**variables))
            jobs, runner = MAX_WAITING_STEPS, Runner(steps, partial(on_cluster, commands), commands.stop)
        elif options.rehearse or options.in_process:
            jobs, runner = 1, Runner(steps, stopped_and_resumed() if options.rehearse else in_this_process)
        else:
            running = set[subprocess.Popen[bytes]]()
            execute = partial(own_process, options.threads, running)
            jobs, runner = options.jobs or 1, Runner(steps, execute, partial(terminate, running))
        _logger.info(runner.summary(title, () if options.rehearse else runner.todo))
        if lines := other_versions([step for step in steps if step not in runner.todo]):
            _logger.warning(
                "steps that are done stay, although they were done with other code (%s); to do a step again, "
                "remove its output below %s", "; ".join(lines), home(),
            )  # fmt: skip
        runner.run(jobs)
    return runner.failed


def own_process(threads: int | None, running: set[subprocess.Popen[bytes]], step: Step) -> int:
    """Run a step in a process of its own, which is in ``running`` meanwhile; ``threads``: its OMP_NUM_THREADS."""
    words = [sys.executable, "-m", step.module, *run_words(step)]
    environment = dict(os.environ) | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
    with log_of(step).open("ab") as log:
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
        )
    running.add(process)
    status = process.wait()
    running.discard(process)
    if status in _INTERRUPTED:
        raise KeyboardInterrupt
    return status


def terminate(running: set[subprocess.Popen[bytes]]) -> None:
    """End processes because of the current exception, and wait until their state is saved; Ctrl-C has reached them."""
    for process in list(running):
        if not isinstance(sys.exception(), KeyboardInterrupt):
            process.terminate()
        process.wait()


def on_cluster(commands: Tasks, step: Step) -> int:
    """Run a step as a task of a Ray cluster, with an equal share of it."""
    share = commands.default if step.kind in ON_GPU else dataclasses.replace(commands.default, gpus=0)
    return commands.run(step.module, run_words(step), log_of(step), share)


def run_step(step: Step, execute: Execute, *, alone: bool = True) -> Record:
    """Run a step whose needs are done, and record its end; the error of a step that failed has the end of its log.

    Output of the step with other inputs, which only plain names can hide, gets the time of its end as a suffix. Output
    without a record stays: the command confirms it, resumes it, or refuses it if it was made with other settings.
    """
    started = time.perf_counter()
    _set_outdated_aside(step)
    # A BM25 index is written whole or not at all, and no command confirms it.
    complete = step.kind == "index-bm25" and (step.output / INDEX_MANIFEST).is_file()
    log, error = log_of(step), None
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {step.command}\n")
    if status := 0 if complete else execute(step):
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 2**16))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
        end = "\n".join(f"  {line}" for line in lines[-LOG_LINES:])
        error = f"{step.command}\nexit status {status}; {log} ends with\n{end}"
    elif not step.output.exists():
        error = f"{step.output}: not written, although the command ended well"
    return write_end(step, time.perf_counter() - started, alone=alone, error=error)


def in_this_process(step: Step) -> int:
    """Run the command's ``main`` in this process, so that all steps share its imports."""
    with (
        log_of(step).open("a", encoding="utf-8") as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        try:
            return command_of(step.module)(run_words(step))
        except Exception:  # noqa: BLE001  (a step that fails leaves the others; SIGTERM ends all)
            traceback.print_exc()
            return 1


def stopped_and_resumed() -> Execute:
    """For a rehearsal: runs steps in this process; one training of each architecture is stopped and resumed."""
    resumed: set[str] = set()

    def execute(step: Step) -> int:
        family = step.facts["recipe"]["architecture"] if step.kind == "train" else None
        if family and family not in resumed:
            resumed.add(family)
            stopped = (*step.unkeyed_arguments, "--max-seconds", "0")
            in_this_process(dataclasses.replace(step, unkeyed_arguments=stopped))
        return in_this_process(step)

    return execute


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


def free_bytes() -> int:
    """Free bytes on the disk of the home folder, which need not exist."""
    folder = home().absolute()
    return shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free


def _size(count: float) -> str:
    """A number of bytes for people.

    >>> _size(2_500_000), _size(41e9)
    ('2 MB', '41.0 GB')
    """
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


def _duration(seconds: float) -> str:
    """A time for people.

    >>> _duration(89), _duration(100), _duration(10_000)
    ('89 s', '2 min', '2.8 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def _set_outdated_aside(step: Step) -> None:
    """Rename output that was made with other inputs; the record goes last, so that a killed renaming is repeated."""
    record = record_of(step)
    if record is None or record.key == step.key:
        return
    path, suffix = step.output, time.strftime("%Y%m%d-%H%M%S", time.localtime(record.finished))
    if path.exists():
        kept = path.rename(path.with_name(f"{path.stem}-{suffix}{path.suffix}"))
        _logger.info("  %s: made with other inputs; it is now %s", path, kept)
    file_of("steps", step).unlink()
