"""When to end early: time is up, or somebody asked; always between two steps."""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

import torch


class Stopping:
    """Within the ``with`` block, Ctrl-C and SIGTERM end the run after the current step; a second one at once."""

    def __init__(self, max_seconds: float | None, processes: Any) -> None:
        self.interrupted = False
        self._until = None if max_seconds is None else time.monotonic() + max_seconds
        self._processes = processes
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._asked)
        return self

    def __exit__(self, *_: object) -> None:
        self._put_back()

    def now(self) -> bool:
        """Whether to end here; all processes agree."""
        stop = self.interrupted or (self._until is not None and time.monotonic() >= self._until)
        if self._processes.num_processes == 1:
            return stop
        votes = torch.tensor([float(stop), float(self.interrupted)], device=self._processes.device)
        total = self._processes.reduce(votes)
        self.interrupted = bool(total[1] > 0)
        return bool(total[0] > 0)

    def _asked(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.interrupted = True
        self._put_back()
        print("\nstopping after this step; once more to stop at once", file=sys.stderr)

    def _put_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
