"""What a run tells: one JSON line per logged step, and a progress bar."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

_SHOWN = {"loss": ".4g", "terms_per_query": ".0f", "terms_per_document": ".0f"}


class Journal:
    """``log.jsonl`` of a run; lines of steps that a resumed run computes again are dropped first."""

    def __init__(self, path: Path, *, stage: int, step: int, quiet: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        kept = [line for line in lines if _place(line) <= (stage, step)]
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
        """One step is done."""
        self._bar.update()
        self._examples += examples

    def write(self, stage: int, step: int, values: Mapping[str, Any]) -> None:
        """Log ``values`` of ``step``; examples per second are since the last line."""
        now = time.monotonic()
        rate = self._examples / max(now - self._time, 1e-9)
        self._time, self._examples = now, 0
        line = {"stage": stage, "step": step, **values, "examples_per_second": round(rate, 2)}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        shown = {name: format(values[name], form) for name, form in _SHOWN.items() if name in values}
        self._bar.set_postfix(shown, refresh=False)

    def note(self, stage: int, step: int, values: Mapping[str, Any]) -> None:
        """Log something that is not a training step: a validation, a search for negatives."""
        self._file.write(json.dumps({"stage": stage, "step": step, **values}) + "\n")
        self._file.flush()
        if not self._quiet:
            tqdm.write(f"step {step}: " + ", ".join(f"{name} {value}" for name, value in values.items()))
        self._time = time.monotonic()

    def close(self) -> None:
        """Finish the bar and the file."""
        self._close_bar()
        self._file.close()

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _place(line: str) -> tuple[int, int]:
    try:
        values = json.loads(line)
        return values["stage"], values["step"]
    except (ValueError, KeyError):
        return (2**31, 0)  # cut off by a kill: goes with the lines that are written again
