"""Which steps are done: a small file for each place, with the key of what was done and the state of its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from eval.reproduce.plan import CellPlan, Step
from eval.reproduce.step_fingerprint import state
from learned_sparse.core import LearnedSparseError, home, parse, read_json, write_json
from learned_sparse.jsonvector import differences


@dataclass(frozen=True, kw_only=True)
class Marker:
    """``home()/reproduce/done/PLACE.json``."""

    key: str
    command: str
    seconds: float
    fresh: bool
    """Whether these seconds are of all the work: nothing was there before."""
    size: int | None
    inputs: dict[str, Any]
    written: dict[str, Any] = field(default_factory=dict)
    """``{file: [bytes, nanoseconds]}``."""


Status = Literal["done", "failed", "absent"]


def status(cell: CellPlan) -> tuple[Status, str | None]:
    """Whether a cell's numbers are there and current, and what went wrong where a step of it failed."""
    done = True
    for step in cell.steps:
        try:
            error = error_of(step)
            done = done and is_done(step)
        except LearnedSparseError as missing:  # a file that the step reads
            error = str(missing)
        if error:
            return "failed", error
    return ("done" if done else "absent"), None


def is_done(step: Step) -> bool:
    """Whether the step was done with these very inputs, and its result is as it was written."""
    key, found = step.key, marker_of(step)  # the key first: whatever is missing is to be known
    return found is not None and found.key == key and found.written == written_by(step)


def marker_of(step: Step) -> Marker | None:
    """What was done last at the place of ``step``; None if that is not known."""
    path = _path("done", step.place)
    return parse(Marker, read_json(path), str(path)) if path.is_file() else None


def mark(step: Step, seconds: float, *, fresh: bool) -> None:
    """Say that the step is done."""
    found = Marker(
        key=step.key, command=step.command, seconds=round(seconds, 3), fresh=fresh, size=step.size,
        inputs=step.inputs, written=written_by(step),
    )  # fmt: skip
    write_json(_path("done", step.place), asdict(found))
    _path("failed", step.place).unlink(missing_ok=True)


def unmark(step: Step) -> None:
    """Forget what was done at the place of ``step``."""
    _path("done", step.place).unlink(missing_ok=True)


def mark_failed(step: Step, error: str) -> None:
    """Keep what went wrong, until the step is done."""
    write_json(_path("failed", step.place), {"key": step.key, "error": error})


def error_of(step: Step) -> str | None:
    """What went wrong when this very step was last tried."""
    path = _path("failed", step.place)
    found = read_json(path) if path.is_file() else {}
    return str(found["error"]) if found.get("key") == step.key else None


def log_of(step: Step) -> Path:
    """Where its output is kept."""
    return home() / "reproduce" / "logs" / f"{step.place}.log"


def changes(found: Marker, step: Step) -> list[str]:
    """What differs between what was done and what is asked for, one line each.

    Of two lists of words, the words that only one of them has.
    """
    before, now = dict(found.inputs), dict(step.inputs)
    words = _only(before.pop("arguments"), now.pop("arguments"))
    return ([words] if words else []) + [_shortened(line) for line in differences(before, now)]


def written_by(step: Step) -> dict[str, Any]:
    """``{file: [bytes, nanoseconds]}`` of all files that are now where the step writes."""
    files = (file for path in step.writes for file in (sorted(path.rglob("*")) if path.is_dir() else [path]))
    return {step.neutral(str(file)): state(file) for file in files if file.is_file()}


def _only(before: Sequence[str], now: Sequence[str]) -> str:
    """The words that were only there before, and those that are new.

    >>> _only(["--bits", "8"], ["--bits", "4"]), _only(["--a"], ["--a"])
    ('8 before, 4 now', '')
    """
    gone, new = [word for word in before if word not in now], [word for word in now if word not in before]
    return f"{' '.join(gone) or 'nothing'} before, {' '.join(new) or 'nothing'} now" if gone or new else ""


def _shortened(line: str) -> str:
    """A key of 64 digits says nothing: that it changed says all."""
    name = line.partition(":")[0]
    return f"{name.removeprefix('needs.')} changed" if name.startswith(("needs.", "reads.")) else line


def _path(kind: str, place: str) -> Path:
    return home() / "reproduce" / kind / f"{place}.json"
