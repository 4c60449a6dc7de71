"""What a leaderboard takes: steps that each run one command, and the cells they lead to."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from eval.reproduce.matrix import DATA, Matrix
from eval.reproduce.step_fingerprint import fingerprint
from learned_sparse import __version__
from learned_sparse.core import home

Kind = Literal[
    "prepare", "train", "pool", "index-bm25", "encode", "encode-queries", "index", "verify", "search", "evaluate",
    "costs",
]  # fmt: skip
"""``prepare``: documents or a tokenizer written in the form that another step reads."""
HOME = "{home}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One command, what it reads and where its result stands. Two steps are the same if they are one object."""

    kind: Kind
    about: str
    """For people: ``encode splade, scifact``."""
    module: str
    arguments: tuple[str, ...]
    place: str
    """Names the step below the home folder: ``vectors/scifact/splade``."""
    needs: tuple[Step, ...] = ()
    reads: tuple[Path, ...] = ()
    """Files from outside."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else decides the result, as JSON: a whole recipe, or how a collection is read."""
    writes: tuple[Path, ...] = ()
    """Files and folders."""
    free: tuple[str, ...] = ()
    """More words of the command, on which the result does not depend, such as ``--threads 2``."""
    size: int | None = None
    """Documents, queries or training examples, if that is known: what its time grows with."""
    terms: int = 0
    """Of a document, about: what the room on the disk grows with."""
    data: Path | None = field(default=None, repr=False)

    @property
    def words(self) -> tuple[str, ...]:
        """All words after the name of the module."""
        return (*self.arguments, *self.free)

    @property
    def command(self) -> str:
        """What a person types."""
        return shlex.join(["python", "-m", self.module, *self.words])

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """All that decides the result, as JSON; the places of ``--data`` and of the home folder do not."""
        return {
            "module": self.module,
            "arguments": [self.neutral(word) for word in self.arguments],
            "needs": {step.place: step.key for step in self.needs},
            "reads": {f"{path.parent.name}/{path.name}": fingerprint(path) for path in self.reads},
            "facts": json.loads(self.neutral(json.dumps(self.facts))),
            "learned_sparse": __version__,
        }

    @cached_property
    def key(self) -> str:
        """SHA-256 of ``inputs``: equal keys, equal results."""
        return hashlib.sha256(json.dumps(self.inputs, sort_keys=True).encode()).hexdigest()

    def neutral(self, text: str) -> str:
        """``text`` without the places of ``--data`` and of the home folder."""
        places = [(str(home()), HOME)] + ([(str(self.data), DATA)] if self.data else [])
        for place, name in sorted(places, key=lambda pair: -len(pair[0])):
            text = text.replace(f"{place}/", f"{name}/")
        return text

    def chain(self) -> Iterator[Step]:
        """Everything it needs, each once and after what it needs itself, then the step."""
        return ordered([self])


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """One row on one column, with one seed."""

    row: str
    column: str
    seed: int | None
    """None: the recipe's own, or nothing is trained."""
    steps: tuple[Step, ...]
    """All that this cell needs, in order."""
    run: Path
    """In TREC's format."""
    evaluated: Path
    """What ``python -m eval.evaluate --json --per-query`` gives."""
    costs: Path | None
    """What ``python -m eval.costs`` gives; None for a run that was given."""
    collection: str
    """As ``--collection`` takes it: where the pool is, for a column with one."""
    checkpoint: str | None
    """Folder or name on the Hub; None for BM25 on text and a run that was given."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All steps of the chosen cells of a matrix, each once and after what it needs; cells by row, column and seed."""

    name: str
    """Of the matrix, for folders."""
    matrix: Matrix
    data: Path | None
    steps: tuple[Step, ...]
    cells: tuple[CellPlan, ...]


def ordered(steps: Iterable[Step]) -> Iterator[Step]:
    """``steps`` with all that they need, each once, whatever is needed first."""
    seen: set[Step] = set()

    def visit(step: Step) -> Iterator[Step]:
        if step not in seen:
            seen.add(step)
            for need in step.needs:
                yield from visit(need)
            yield step

    for step in steps:
        yield from visit(step)
