"""The log and the progress bar of a run, and its early end by a signal or after some time."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from tqdm import tqdm

from encoders.training.learner import Processes

_SHOWN = {"loss": ".4g", "terms_per_query": ".0f", "terms_per_document": ".0f"}
"""Logged values that the progress bar shows, and their formats."""


class Stopping:
    """Ends a run early: in the ``with`` block, Ctrl-C and SIGTERM end it after the current step, a second one at once.

    The run also ends when ``max_seconds`` have passed.
    """

    def __init__(self, max_seconds: float | None, processes: Processes) -> None:
        self.interrupted = False
        self._until = None if max_seconds is None else time.monotonic() + max_seconds
        self._processes = processes
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore_handlers()

    def now(self) -> bool:
        """Whether to end after this step; the same in all processes."""
        stop = self.interrupted or (self._until is not None and time.monotonic() >= self._until)
        if self._processes.num_processes == 1:
            return stop
        votes = torch.tensor([float(stop), float(self.interrupted)], device=self._processes.device)
        total = self._processes.reduce(votes)
        self.interrupted = bool(total[1] > 0)
        return bool(total[0] > 0)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.interrupted = True
        self._restore_handlers()
        print("\nstopping after this step; press Ctrl-C again to stop at once", file=sys.stderr)

    def _restore_handlers(self) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers.clear()


class Journal:
    """``log.jsonl`` of a run, one JSON line per logged step, and a progress bar.

    A resumed run first drops the lines of steps that it computes again.
    """

    def __init__(self, path: Path, *, stage: int, step: int, quiet: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        kept = [line for line in lines if _position(line) <= (stage, step)]
        path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        self._file = path.open("a", encoding="utf-8")
        self._quiet = quiet
        self._bar: Any = None

    def start(self, name: str, step: int, steps: int) -> None:
        """A stage begins, or goes on, at ``step``."""
        self._close_bar()
        self._bar = tqdm(total=steps, initial=step, desc=name, unit="step", disable=self._quiet, dynamic_ncols=True)
        self._time, self._examples = time.monotonic(), 0

    def advance(self, examples: int) -> None:
        """One step with that many examples is done."""
        self._bar.update()
        self._examples += examples

    def log_step(self, stage: int, step: int, values: Mapping[str, Any]) -> None:
        """Log the values of a training step, with the examples per second since the last line."""
        now = time.monotonic()
        rate = self._examples / max(now - self._time, 1e-9)
        self._time, self._examples = now, 0
        self._write({"stage": stage, "step": step, **values, "examples_per_second": round(rate, 2)})
        shown = {name: format(values[name], form) for name, form in _SHOWN.items() if name in values}
        self._bar.set_postfix(shown, refresh=False)

    def log_event(self, stage: int, step: int, values: Mapping[str, Any]) -> None:
        """Log a validation, a pruning or a mining."""
        self._write({"stage": stage, "step": step, **values})
        if not self._quiet:
            tqdm.write(f"step {step}: " + ", ".join(f"{name} {value}" for name, value in values.items()))
        self._time = time.monotonic()

    def close(self) -> None:
        """End the bar and close the file."""
        self._close_bar()
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _position(line: str) -> tuple[int, int]:
    """Stage and step of a line; a line cut off by a kill is after all others."""
    try:
        values = json.loads(line)
        return values["stage"], values["step"]
    except (ValueError, KeyError):
        return (2**31, 0)
