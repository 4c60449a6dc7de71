"""How long a plan takes and how much room: from steps of the same kind that are done, else from rough rates."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.reproduce.plan import Kind, Step
from eval.reproduce.step_marker import marker_of
from learned_sparse.core import LearnedSparseError, home

_START = 3.0
"""Seconds in which a process starts."""
_PIECES = "encode word pieces"
"""A group of steps: no network is computed."""
_RATES: dict[str, float] = {
    "prepare": 20_000, "train": 8, "pool": 20_000, "index-bm25": 5_000, "encode": 100, "encode-queries": 100,
    _PIECES: 2_000, "index": 2_000, "verify": 5_000, "search": 500, "evaluate": 2_000, "costs": 50,
}  # fmt: skip
"""Documents, queries or training examples a second, on two CPU cores."""
_UNKNOWN = 10_000
"""Documents, where nothing says how many there are."""
_BYTES: dict[Kind, float] = {"encode": 14, "index": 3}
"""Of one term of a document: as JSON, and in Lucene."""
_TEXT_BYTES = 400
"""Of a document, in an index of text or a pool."""
_CHECKPOINT = 4e8
"""Bytes of a training in progress: weights, the best ones, and the optimiser's state."""


@dataclass(frozen=True)
class Rates:
    """What was learnt of the kinds of steps: seconds for one document (or query, or example), the start left out."""

    seconds: dict[str, float]
    """By group: the kind of a step, but for those that are much quicker than others of their kind."""

    @classmethod
    def of(cls, done: Iterable[Step]) -> Rates:
        """From the markers of steps that are done; those that only confirmed something tell nothing."""
        sums: dict[str, tuple[float, int]] = {}
        for step in done:
            found = marker_of(step)
            if found and found.fresh and found.size:
                seconds, size = sums.get(_group(step), (0.0, 0))
                sums[_group(step)] = (seconds + max(0.0, found.seconds - _START), size + found.size)
        return cls({kind: seconds / size for kind, (seconds, size) in sums.items()})

    def time(self, steps: Iterable[Step]) -> float:
        """Seconds that ``steps`` take, about."""
        return sum(_START + _size(step) * self.seconds.get(_group(step), 1 / _RATES[_group(step)]) for step in steps)


def room(steps: Iterable[Step]) -> float:
    """Bytes that the results of ``steps`` take, about."""
    return sum(_room(step) for step in steps)


def check_room(steps: Sequence[Step]) -> float:
    """Bytes that are free; raise if ``steps`` take more."""
    wanted, free = room(steps), free_room()
    if wanted > free:
        raise LearnedSparseError(
            f"{home()}: about {as_bytes(wanted)} are needed and {as_bytes(free)} are free; make room, choose fewer "
            "rows with --row, or set LEARNED_SPARSE_HOME to a folder on another disk"
        )
    return free


def free_room() -> float:
    """Bytes free where the home folder is, or is to be."""
    place = home().absolute()
    while not place.exists():
        place = Path(place.parent)
    return shutil.disk_usage(place).free


def as_time(seconds: float) -> str:
    """For people.

    >>> as_time(8.2), as_time(600), as_time(9000)
    ('8 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def as_bytes(count: float) -> str:
    """For people.

    >>> as_bytes(2_500_000), as_bytes(41e9)
    ('2 MB', '41.0 GB')
    """
    return f"{count / 1e6:.0f} MB" if count < 1e9 else f"{count / 1e9:.1f} GB"


def _group(step: Step) -> str:
    pieces = any(need.module == "eval.reproduce.step_word_pieces" for need in step.needs)
    return _PIECES if pieces and step.kind.startswith("encode") else step.kind


def _size(step: Step) -> int:
    if step.size is not None:
        return step.size
    return 0 if step.kind in {"prepare", "encode-queries", "search", "evaluate", "costs"} else _UNKNOWN


def _room(step: Step) -> float:
    if step.kind == "train":
        return _CHECKPOINT
    if step.kind in {"pool", "index-bm25"} or (step.kind == "prepare" and step.size):
        return _size(step) * _TEXT_BYTES
    return _size(step) * step.terms * _BYTES.get(step.kind, 0)
