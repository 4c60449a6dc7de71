"""What a run reports while it trains: its log, a progress bar, and trackers such as TensorBoard."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from learned_sparse.core.files import atomic_write

_logger = logging.getLogger(__name__)

Track = Callable[[Mapping[str, float], int], None]
"""Sends numbers by name to a tracker, with the step counted over all stages."""
_SHOWN = {"loss": ".4g", "terms_per_query": ".0f", "terms_per_document": ".0f"}
"""Logged values that the progress bar shows, and their formats."""


class Journal:
    """``log.jsonl`` of a run, one JSON line per logged step, and a progress bar.

    A resumed run first drops the lines of steps that it computes again.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        stage: int,
        step: int,
        quiet: bool,
        track: Track | None = None,
        stages: Sequence[int] = (),
    ) -> None:
        """``path`` is None in all processes but the main one. ``stages``: their steps, for ``track``."""
        self._track, self._starts = track, [sum(stages[:number]) for number in range(len(stages))]
        if path is not None:
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            kept = [line for line in lines if _position(line) <= (stage, step)]
            with atomic_write(path) as file:
                file.write("".join(f"{line}\n" for line in kept).encode())
        path = path or Path(os.devnull)
        self._file = path.open("a", encoding="utf-8", newline="\n")
        self._quiet = quiet
        self._bar: Any = None

    def start(self, name: str, step: int, steps: int) -> None:
        """Start the progress bar of a stage at ``step``."""
        self._close_bar()
        hidden = self._quiet or None  # None: without a terminal
        self._bar = tqdm(total=steps, initial=step, desc=name, unit="step", disable=hidden, dynamic_ncols=True)
        self._time, self._examples = time.monotonic(), 0

    def advance(self, examples: int) -> None:
        """Record one step with this number of examples."""
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
            _logger.info("step %d: %s", step, ", ".join(f"{name} {value}" for name, value in values.items()))
        self._time = time.monotonic()

    def close(self) -> None:
        """End the bar and close the file."""
        self._close_bar()
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._track is not None:
            left_out = {"stage", "step"}
            numbers = {
                name: float(value)
                for name, value in line.items()
                if isinstance(value, int | float) and name not in left_out
            }
            self._track(numbers, self._starts[line["stage"]] + line["step"])
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
