"""One step: left out, confirmed, resumed or done anew, in a process of its own with its log kept."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eval.reproduce.plan import Step
from eval.reproduce.step_marker import changes, log_of, mark, mark_failed, marker_of, unmark
from learned_sparse.core import LearnedSparseError
from learned_sparse.index import INDEX_MANIFEST

LAST_LINES = 12
"""Of a log, that are shown when a step has failed."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a step."""

    seconds: float
    error: str | None = None


_INTERRUPTED = (130, -signal.SIGINT)
"""How a process ends that was stopped by Ctrl-C."""

Execute = Callable[[Step], str | None]
"""Runs the command of a step; what went wrong."""


def run_step(step: Step, execute: Execute, say: Callable[[str], None] = print) -> Outcome:
    """Do ``step``, whose needs are done. An exception of ``execute`` leaves no marker: it is tried again next time.

    What was done before with other inputs is removed first, and ``say`` hears what has changed. What stands at the
    place without a marker is confirmed by the command, gone on with, or refused if it was made with other settings.
    """
    started = time.perf_counter()
    _clear(step, say)
    fresh = not any(path.exists() for path in step.writes)
    error = None if _stands(step) else execute(step)
    seconds = time.perf_counter() - started
    missing = [path for path in step.writes if not path.exists()]
    if error is None and missing:
        error = f"{missing[0]}: not written, although the command ended well"
    if error is None:
        mark(step, seconds, fresh=fresh)
    else:
        mark_failed(step, error)
    return Outcome(seconds=seconds, error=error)


class OwnProcess:
    """Runs each command in a process of its own, whose output goes to the log of the step."""

    def __init__(self, *, threads: int | None = None, keep_open: int | None = None) -> None:
        """``threads`` of each process's arithmetic; ``keep_open``: a file that the processes hold open, too."""
        self._environment = dict(os.environ) | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
        self._kept = () if keep_open is None else (keep_open,)
        self._running: set[subprocess.Popen[bytes]] = set()

    def __call__(self, step: Step) -> str | None:
        """What went wrong, with the last lines of the log."""
        log = log_of(step)
        log.parent.mkdir(parents=True, exist_ok=True)
        quiet = ["--quiet"] if step.kind == "train" else []  # no bar in a log
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {step.command}\n")
            file.flush()
            process = subprocess.Popen(
                [sys.executable, "-m", step.module, *step.words, *quiet], stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, env=self._environment, pass_fds=self._kept,
            )  # fmt: skip
        self._running.add(process)
        try:
            status = process.wait()
        except KeyboardInterrupt:  # reaches the process as well: it is given the time to save what it has
            process.wait()
            raise
        except BaseException:
            self.stop()
            raise
        finally:
            self._running.discard(process)
        if status in _INTERRUPTED:
            raise KeyboardInterrupt
        return f"{step.command}\nexit status {status}; {log} ends with\n{last_lines(log)}" if status else None

    def stop(self) -> None:
        """End all of them, and wait until they have."""
        running = list(self._running)
        for process in running:
            process.terminate()
        for process in running:
            process.wait()


def in_this_process(step: Step) -> str | None:
    """Run the command's ``main`` here, shown as a person would type it: what it imports is imported once for all."""
    print(f"\n$ {step.command}", flush=True)
    status = importlib.import_module(step.module).main(list(step.words))
    if status:
        raise LearnedSparseError(f"python -m {step.module}: exit status {status}; see above")
    return None


def last_lines(log: Path, count: int = LAST_LINES) -> str:
    """The end of a log, indented."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2**16))
        lines = file.read().decode("utf-8", errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in lines[-count:])


def _clear(step: Step, say: Callable[[str], None]) -> None:
    """Remove what was done with other inputs, the marker last: whoever is killed in between begins here again."""
    found = marker_of(step)
    if found is None or found.key == step.key:
        return
    say(f"  {step.about}: done anew: {'; '.join(changes(found, step)[:3])}")
    for path in step.writes:
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
    unmark(step)


def _stands(step: Step) -> bool:
    """Whether there is an index of text, which is whole or absent, and has no command to confirm it."""
    return step.kind == "index-bm25" and (step.writes[0] / INDEX_MANIFEST).is_file()
