"""A step of a leaderboard: one command, its inputs and outputs, and the record that says how it ended."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import shlex
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from eval.reproduce.matrix import DATA
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import home, read_json, sha256, write_json
from learned_sparse.core.settings import parse
from learned_sparse.jsonvector.manifest import as_text, differences, versions

Kind = Literal[
    "prepare", "train", "pool", "index-bm25", "encode", "encode-queries", "index", "search", "rerank",
    "evaluate", "costs",
]  # fmt: skip
"""``prepare``: documents or a tokenizer converted to the form that another step reads."""
VERSIONS: dict[Kind, int] = dict.fromkeys(get_args(Kind), 1)
"""Version of the output of each kind of step. Raise it when a change of the code changes what such a step writes."""
HOME = "{home}"
"""Stands for the home folder in keys, errors and commands that are stored."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One command, the files that it reads, and its output. Steps are compared by identity."""

    name: str
    """Unique name, mostly the output's path below the home folder: ``vectors/scifact/splade``."""
    kind: Kind
    module: str
    arguments: tuple[str, ...]
    output: Path
    """File or folder that the command writes."""
    unkeyed_arguments: tuple[str, ...] = ()
    """Further arguments that do not change the result, such as ``--threads 2``."""
    needs: tuple[Step, ...] = ()
    reads: tuple[Path, ...] = ()
    """Input files that no step writes."""
    facts: dict[str, Any] = field(default_factory=dict)
    """JSON values, besides arguments and files, that decide the result: a whole recipe, how a collection is read."""
    disk_bytes: int = 0
    """Estimated size of the output in bytes."""
    data: Path | None = field(default=None, repr=False)
    """The folder of ``--data``."""

    @property
    def title(self) -> str:
        """Shown as progress: ``encode vectors/scifact/splade``."""
        return f"{self.kind} {self.name}"

    @property
    def words(self) -> tuple[str, ...]:
        """All arguments of the module."""
        return (*self.arguments, *self.unkeyed_arguments)

    @property
    def command(self) -> str:
        """The command line as a person types it."""
        return shlex.join(["python", "-m", self.module, *self.words])

    @cached_property
    def key(self) -> str:
        """SHA-256 of all that decides the result; the paths of ``--data`` and of the home folder do not.

        Raises LearnedSparseError if an input file is missing.
        """
        return json_digest(
            {
                "kind": self.kind,
                "version": VERSIONS[self.kind],
                "module": self.module,
                "arguments": [self.neutral(word) for word in self.arguments],
                "needs": [step.key for step in self.needs],
                "reads": self._fingerprints(),
                "facts": json.loads(self.neutral(json.dumps(self.facts))),
            }
        )

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
class Record:
    """Content of ``home()/reproduce/steps/NAME.json``: how the last run of a step ended."""

    key: str
    command: str
    error: str | None
    """None: the step is done."""
    seconds: float
    alone: bool
    """Whether no other step ran at the same time, so that times can be compared."""
    finished: float
    """Time of the end, in seconds since 1970."""
    needs: dict[str, float]
    """``finished`` of each step that this one needs: it is done again after them."""
    provenance: dict[str, Any]
    """``provenance()`` when the step was run, which does not decide whether the step is done."""


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


def examine(steps: Iterable[Step]) -> tuple[set[Step], dict[Step, str]]:
    """Of ``steps`` and all they need, those that are done, and the error of each whose input files are missing."""
    done: set[Step] = set()
    missing: dict[Step, str] = {}
    for step in ordered(steps):
        try:
            if is_done(step) and done.issuperset(step.needs):
                done.add(step)
        except LearnedSparseError as error:
            missing[step] = str(error)
    return done, missing


def status_of(steps: Sequence[Step]) -> tuple[bool, str | None]:
    """Whether all ``steps`` are done, and the error of one that failed."""
    done, missing = examine(steps)
    for step in (step for step in ordered(steps) if step not in done):
        record = record_of(step)
        if error := missing.get(step) or (record.error if record and record.key == step.key else None):
            return False, error
    return done.issuperset(steps), None


def is_done(step: Step) -> bool:
    """Whether the step was done with these inputs and its output exists; raise if an input file is missing.

    The steps that it needs must be done.
    """
    key, record = step.key, record_of(step)
    if record is None or record.key != key or record.error is not None:
        return False
    return record.needs == _finished(step.needs) and step.output.exists()


def record_of(step: Step) -> Record | None:
    """The record under the step's name, perhaps of other inputs; None if there is none."""
    path = file_of("steps", step)
    return parse(Record, read_json(path, record=True), str(path)) if path.is_file() else None


def file_of(kind: Literal["steps", "times"], step: Step) -> Path:
    """The file of a step's record, or of the times of an encoding."""
    return home() / "reproduce" / kind / f"{step.name}.json"


def write_end(step: Step, seconds: float, *, alone: bool, error: str | None = None) -> Record:
    """Write and return the record of a step that has just ended, with an ``error`` if it failed."""
    record = Record(
        key=step.key, command=step.command, error=error, seconds=round(seconds, 3), alone=alone, finished=time.time(),
        needs=_finished(step.needs), provenance=provenance(),
    )  # fmt: skip
    write_json(file_of("steps", step), asdict(record), record=True)
    return record


def _finished(steps: Iterable[Step]) -> dict[str, float]:
    return {step.name: record.finished for step in steps if (record := record_of(step))}


def provenance() -> dict[str, Any]:
    """Commit (None outside a repository), versions, host and devices of this process; the GPUs are NVIDIA's."""
    files = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    gpus = [name for file in files for name in _values(file, "Model")]
    known = {**versions(), "pyserini": importlib.metadata.version("pyserini")}
    names = [*_values(Path("/proc/cpuinfo"), "model name")[:1], platform.processor(), platform.machine()]
    processor = next(filter(None, names))
    return {"commit": _commit(), "versions": known, "host": platform.node(), "processor": processor, "gpus": gpus}


def run_words(step: Step) -> list[str]:
    """The arguments that a runner gives to the command: those of ``step`` and some without effect on its result."""
    more = {"train": ["--quiet"], "encode": ["--times", str(file_of("times", step))]}  # a log has no progress bar
    return [*step.words, *more.get(step.kind, ())]


def times_of(step: Step) -> dict[str, Any] | None:
    """Documents and seconds of an encoding without start-up and loading; None if another step ran at the same time."""
    path, record = file_of("times", step), record_of(step)
    return dict(read_json(path)) if record and record.alone and path.is_file() else None


def log_of(step: Step) -> Path:
    """Log file with the output of the step's command."""
    return home() / "reproduce" / "logs" / f"{step.name}.log"


def other_versions(steps: Sequence[Step]) -> list[str]:
    """Differences between the commits and versions that some of ``steps`` were done with and the present ones."""
    known = [provenance(), *(record.provenance for step in steps if (record := record_of(step)))]
    now, *then = ({"commit": one["commit"], **one["versions"]} for one in known)
    return list(dict.fromkeys(as_text({name: pair}) for one in then for name, pair in differences(one, now).items()))


def fingerprint(path: Path) -> str:
    """Digest of the content of a file, or of all files of a folder, without times and names that begin with a dot."""
    if path.is_dir():  # a killed command leaves locks and parts whose names begin with a dot
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
        return json_digest({file.relative_to(path).as_posix(): fingerprint(file) for file in files})
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file or folder")
    stat = path.stat()
    return _hash_once(str(path.resolve()), stat.st_size, stat.st_mtime_ns, store=home() / "reproduce" / "files.json")


def json_digest(content: Any) -> str:
    """SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def _hash_once(name: str, size: int, time: int, *, store: Path) -> str:
    """SHA-256 of a file, stored in the home folder with the file's size and time so that it is computed once."""
    known: dict[str, Any] = read_json(store) if store.is_file() else {}
    if known.get(name, [None])[0] != [size, time]:
        known[name] = [[size, time], sha256(name)]
        write_json(store, known)
    return str(known[name][1])


@cache
def _commit() -> str | None:
    """The commit of the source that runs, with ``+`` if files differ from it; None for an installed package."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", Path(__file__).name)  # an installed package can lie in another repository
        return git("describe", "--always", "--exclude=*", "--abbrev=40", "--dirty=+")
    except (OSError, subprocess.CalledProcessError):
        return None


def _values(path: Path, key: str) -> list[str]:
    """The values of ``key: value`` lines in a file of the operating system; none if it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.startswith(key)]
