"""A step of a leaderboard: one command, its inputs and outputs, and the marker file that says it is done."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from eval.reproduce.matrix import DATA
from learned_sparse import __version__
from learned_sparse.core import (
    LearnedSparseError,
    home,
    parse,
    read_json,
    read_record,
    sha256,
    write_json,
    write_record,
)
from learned_sparse.jsonvector import differences, versions

Kind = Literal[
    "prepare", "train", "pool", "index-bm25", "encode", "encode-queries", "index", "verify", "search", "evaluate",
    "costs",
]  # fmt: skip
"""``prepare``: documents or a tokenizer converted to the form that another step reads."""
HOME = "{home}"
"""Stands for the home folder in keys, errors and commands that are stored."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One command, the files it reads and the files it writes. Steps are compared by identity."""

    name: str
    """Unique name, mostly the output's path below the home folder: ``vectors/scifact/splade``."""
    kind: Kind
    title: str
    """Shown as progress: ``encode splade, scifact``."""
    module: str
    arguments: tuple[str, ...]
    unkeyed_arguments: tuple[str, ...] = ()
    """Further arguments that do not change the result, such as ``--threads 2``."""
    needs: tuple[Step, ...] = ()
    reads: tuple[Path, ...] = ()
    """Input files that no step writes."""
    facts: dict[str, Any] = field(default_factory=dict)
    """JSON values, besides arguments and files, that decide the result: a whole recipe, how a collection is read."""
    writes: tuple[Path, ...] = ()
    """Output files and folders."""
    disk_bytes: int = 0
    """Estimated size of the output in bytes."""
    data: Path | None = field(default=None, repr=False)
    """The folder of ``--data``."""

    @property
    def words(self) -> tuple[str, ...]:
        """All arguments of the module."""
        return (*self.arguments, *self.unkeyed_arguments)

    @property
    def command(self) -> str:
        """The command line as a person types it."""
        return shlex.join(["python", "-m", self.module, *self.words])

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Everything that decides the result, as JSON; the paths of ``--data`` and of the home folder do not."""
        return {
            "module": self.module,
            "arguments": [self.neutral(word) for word in self.arguments],
            "needs": {step.name: step.key for step in self.needs},
            "reads": self._fingerprints(),
            "facts": json.loads(self.neutral(json.dumps(self.facts))),
            "learned_sparse": __version__,
        }

    @cached_property
    def key(self) -> str:
        """SHA-256 of ``inputs``: steps with equal keys have equal results."""
        return hashlib.sha256(json.dumps(self.inputs, sort_keys=True).encode()).hexdigest()

    def _fingerprints(self) -> dict[str, str]:
        """Fingerprint of each of ``reads`` by the last two parts of its path; a repeated name is numbered."""
        prints: dict[str, str] = {}
        for number, path in enumerate(dict.fromkeys(self.reads)):
            neutral = Path(self.neutral(str(path)))
            name = f"{neutral.parent.name}/{neutral.name}"
            prints[f"{name} {number}" if name in prints else name] = fingerprint(path)
        return prints

    def neutral(self, text: str) -> str:
        """``text`` with ``{data}`` and ``{home}`` in place of the paths on this machine."""
        folders = [(str(home()), HOME)] + ([(str(self.data), DATA)] if self.data else [])
        for folder, placeholder in sorted(folders, key=lambda pair: -len(pair[0])):
            text = text.replace(f"{folder}/", f"{placeholder}/")
        return text


@dataclass(frozen=True, kw_only=True)
class Marker:
    """Content of ``home()/reproduce/done/NAME.json``: what a finished step read and wrote."""

    key: str
    command: str
    seconds: float
    fresh: bool
    """Whether the step began without any output, so that ``seconds`` is the time of all its work."""
    inputs: dict[str, Any]
    written: dict[str, Any] = field(default_factory=dict)
    """``{file: [bytes, modification time in nanoseconds]}``."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of libraries, which do not decide whether the step is done."""


Status = Literal["done", "failed", "absent"]


def ordered(steps: Iterable[Step]) -> Iterator[Step]:
    """``steps`` and all steps they need, each once, every step after the steps it needs."""
    seen: set[Step] = set()

    def visit(step: Step) -> Iterator[Step]:
        if step not in seen:
            seen.add(step)
            for need in step.needs:
                yield from visit(need)
            yield step

    for step in steps:
        yield from visit(step)


def status_of(steps: Sequence[Step]) -> tuple[Status, str | None]:
    """Whether all ``steps`` are done and current; for a failed step also its error."""
    done = True
    for step in steps:
        try:
            error = error_of(step)
            done = done and is_done(step)
        except LearnedSparseError as missing:  # an input file is missing
            error = str(missing)
        if error:
            return "failed", error
    return ("done" if done else "absent"), None


def is_done(step: Step) -> bool:
    """Whether the step was done with these inputs and its output is unchanged; raise if an input file is missing."""
    key, marker = step.key, marker_of(step)
    return marker is not None and marker.key == key and marker.written == _output_state(step)


def marker_of(step: Step) -> Marker | None:
    """The marker under the step's name, perhaps of other inputs; None if there is none."""
    path = _path("done", step)
    return parse(Marker, read_record(path), str(path)) if path.is_file() else None


def mark_done(step: Step, seconds: float, *, fresh: bool) -> None:
    """Write the step's marker and forget its last error."""
    marker = Marker(
        key=step.key, command=step.command, seconds=round(seconds, 3), fresh=fresh, inputs=step.inputs,
        written=_output_state(step), versions=versions(),
    )  # fmt: skip
    write_record(_path("done", step), asdict(marker))
    _path("failed", step).unlink(missing_ok=True)


def mark_failed(step: Step, error: str) -> None:
    """Keep the error of a step until the step is done."""
    write_json(_path("failed", step), {"key": step.key, "error": error})


def unmark(step: Step) -> None:
    """Remove the marker under the step's name."""
    _path("done", step).unlink(missing_ok=True)


def error_of(step: Step) -> str | None:
    """Error of the last try with the same inputs, None if there was none."""
    path = _path("failed", step)
    content = read_json(path) if path.is_file() else {}
    return str(content["error"]) if content.get("key") == step.key else None


def log_of(step: Step) -> Path:
    """Log file with the output of the step's command."""
    return home() / "reproduce" / "logs" / f"{step.name}.log"


def changes(marker: Marker, step: Step) -> list[str]:
    """Differences between the inputs of a marker and of a step, one line each."""
    before, now = dict(marker.inputs), dict(step.inputs)
    arguments = _changed_arguments(before.pop("arguments"), now.pop("arguments"))
    return ([arguments] if arguments else []) + [_without_keys(line) for line in differences(before, now)]


def other_versions(steps: Sequence[Step]) -> list[str]:
    """Differences between the versions that some of ``steps`` were done with and the present ones."""
    markers = [marker for step in steps if (marker := marker_of(step)) and marker.versions]
    return list(dict.fromkeys(line for marker in markers for line in differences(marker.versions, versions())))


def fingerprint(path: Path) -> str:
    """SHA-256 of a file, or of the files of a folder with their names (without sub-folders)."""
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file())
        return " ".join(f"{file.name}:{_file_hash(file)}" for file in files)
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file or folder")
    return _file_hash(path)


def _file_hash(path: Path) -> str:
    """SHA-256 of a file, stored in the home folder with the file's size and time so that it is computed once."""
    store = home() / "reproduce" / "files.json"
    known: dict[str, Any] = read_json(store) if store.is_file() else {}
    name = str(path.resolve())
    if known.get(name, [None])[0] != _file_state(path):
        known[name] = [_file_state(path), sha256(path)]
        write_json(store, known)
    return str(known[name][1])


def _file_state(path: Path) -> list[int]:
    """Size in bytes and time of the last change in nanoseconds."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _output_state(step: Step) -> dict[str, Any]:
    """``{file: [bytes, nanoseconds]}`` of all files below the step's output paths."""
    files = (file for path in step.writes for file in (sorted(path.rglob("*")) if path.is_dir() else [path]))
    return {step.neutral(str(file)): _file_state(file) for file in files if file.is_file()}


def _changed_arguments(before: Sequence[str], now: Sequence[str]) -> str:
    """The arguments that only one of two command lines has.

    >>> _changed_arguments(["--bits", "8"], ["--bits", "4"]), _changed_arguments(["--a"], ["--a"])
    ('8 before, 4 now', '')
    """
    removed, added = [word for word in before if word not in now], [word for word in now if word not in before]
    return f"{' '.join(removed) or 'nothing'} before, {' '.join(added) or 'nothing'} now" if removed or added else ""


def _without_keys(line: str) -> str:
    """A difference of keys (64 hexadecimal digits) shortened to the name of the changed input."""
    name = line.partition(":")[0]
    return f"{name.removeprefix('needs.')} changed" if name.startswith(("needs.", "reads.")) else line


def _path(kind: str, step: Step) -> Path:
    return home() / "reproduce" / kind / f"{step.name}.json"
