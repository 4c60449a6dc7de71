"""A step of a leaderboard: one command, its inputs and outputs, and the marker file that says it is done."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from encoders.checkpoints.notes import NOTES, read_notes
from eval.reproduce.matrix import DATA
from learned_sparse import __version__
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import home, read_json, read_record, sha256, write_json, write_record
from learned_sparse.core.settings import parse
from learned_sparse.jsonvector.manifest import MANIFEST, Manifest, as_text, differences, versions

Kind = Literal[
    "prepare", "train", "pool", "index-bm25", "encode", "encode-queries", "index", "verify", "search", "rerank",
    "evaluate", "costs",
]  # fmt: skip
"""``prepare``: documents or a tokenizer converted to the form that another step reads."""
HOME = "{home}"
"""Stands for the home folder in keys, errors and commands that are stored."""
_FROM_INPUTS: tuple[Kind, ...] = ("index", "index-bm25", "verify", "costs")
"""Steps whose output is determined by their inputs, although its bytes are not: Lucene's random ids, times."""


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

    @property
    def inputs(self) -> dict[str, Any]:
        """Everything that decides the result, as JSON; the paths of ``--data`` and of the home folder do not.

        Of steps that this one needs, the digest of the output counts: a model that was trained again with another
        outcome is another input. It is None before the needed step is done.
        """
        return {
            **self.made_of,
            "needs": {step.name: marker.digest if (marker := marker_of(step)) else None for step in self.needs},
            "learned_sparse": __version__,
        }

    @property
    def made_of(self) -> dict[str, Any]:
        """The part of ``inputs`` that is known before anything is run; of needed steps, the names."""
        return {
            "module": self.module,
            "arguments": [self.neutral(word) for word in self.arguments],
            "needs": [step.name for step in self.needs],
            "reads": self._fingerprints(),
            "facts": json.loads(self.neutral(json.dumps(self.facts))),
        }

    @property
    def key(self) -> str:
        """SHA-256 of ``inputs``: steps with equal keys have equal results."""
        return json_digest(self.inputs)

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
    alone: bool
    """Whether no other step ran at the same time, so that times can be compared."""
    inputs: dict[str, Any]
    written: dict[str, Any] = field(default_factory=dict)
    """``{file: [bytes, modification time in nanoseconds]}``."""
    digest: str
    """Digest of the output's content, an input of the steps that need this one."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """``provenance()`` when the step was run, which does not decide whether the step is done."""


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


def status_of(steps: Sequence[Step]) -> tuple[Status, str | None]:
    """Whether all ``steps`` are done and current; for a failed step also its error."""
    done, missing = examine(steps)
    for step in ordered(steps):
        if error := missing.get(step) or (None if step in done else error_of(step)):
            return "failed", error
    return ("done" if done.issuperset(steps) else "absent"), None


def is_done(step: Step) -> bool:
    """Whether the step was done with these inputs and its output is unchanged; raise if an input file is missing.

    The steps that it needs must be done.
    """
    key, marker = step.key, marker_of(step)
    return marker is not None and marker.key == key and marker.written == _output_state(step)


def marker_of(step: Step) -> Marker | None:
    """The marker under the step's name, perhaps of other inputs; None if there is none, or one without a digest."""
    path = _path("done", step)
    content = read_record(path) if path.is_file() else {}
    return parse(Marker, content, str(path)) if "digest" in content else None  # earlier versions stored none


def mark_done(step: Step, inputs: dict[str, Any], seconds: float, *, alone: bool) -> None:
    """Write the step's marker and forget its last error; ``inputs`` are ``step.inputs`` when the step began."""
    marker = Marker(
        key=json_digest(inputs), command=step.command, seconds=round(seconds, 3), alone=alone, inputs=inputs,
        written=_output_state(step), digest=output_digest(step), provenance=provenance(),
    )  # fmt: skip
    write_record(_path("done", step), asdict(marker))
    _path("failed", step).unlink(missing_ok=True)


def mark_failed(step: Step, error: str, seconds: float) -> None:
    """Keep the error of a step until the step is done."""
    content = {"key": step.key, "error": error, "seconds": round(seconds, 3), "provenance": provenance()}
    write_json(_path("failed", step), content)


def unmark(step: Step) -> None:
    """Remove the marker under the step's name."""
    _path("done", step).unlink(missing_ok=True)


def error_of(step: Step) -> str | None:
    """Error of the last try with the same inputs, None if there was none."""
    path = _path("failed", step)
    content = read_json(path) if path.is_file() else {}
    return str(content["error"]) if content and content.get("key") == step.key else None


def provenance() -> dict[str, Any]:
    """Commit (None outside a repository), versions, host and devices of this process."""
    return {
        "commit": _commit(), "versions": _versions(), "host": platform.node(), "processor": processor(), "gpus": gpus(),
    }  # fmt: skip


def processor() -> str:
    """Name of the processor as the operating system reports it."""
    name = next(_values(Path("/proc/cpuinfo"), "model name"), "") if sys.platform == "linux" else ""
    return name or platform.processor() or platform.machine()


def gpus() -> list[str]:
    """Names of the NVIDIA GPUs, as their Linux driver reports them without a library."""
    if sys.platform != "linux":
        return []
    files = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    return [name for file in files for name in _values(file, "Model")]


def run_words(step: Step, *, quiet: bool) -> list[str]:
    """The arguments that a runner gives to the command: those of ``step`` and some without effect on its result.

    ``quiet``: no progress bar, for a log.
    """
    more = {"train": ["--quiet"] if quiet else [], "encode": ["--times", str(_path("times", step))]}
    return [*step.words, *more.get(step.kind, ())]


def times_of(step: Step) -> dict[str, Any] | None:
    """Documents and seconds of an encoding without start-up and loading; None if another step ran at the same time."""
    path, marker = _path("times", step), marker_of(step)
    return dict(read_json(path)) if marker and marker.alone and path.is_file() else None


def log_of(step: Step) -> Path:
    """Log file with the output of the step's command."""
    return home() / "reproduce" / "logs" / f"{step.name}.log"


def changes(marker: Marker, step: Step) -> list[str]:
    """Differences between the inputs of a marker and of a step, one line each."""
    before, now = dict(marker.inputs), dict(step.inputs)
    arguments = _changed_arguments(before.pop("arguments"), now.pop("arguments"))
    return ([arguments] if arguments else []) + [
        # keys are 64 hexadecimal digits: the name of the changed input says more
        f"{field.removeprefix('needs.')} changed"
        if field.startswith(("needs.", "reads."))
        else as_text({field: values})
        for field, values in differences(before, now).items()
    ]


def other_versions(steps: Sequence[Step]) -> list[str]:
    """Differences between the versions that some of ``steps`` were done with and the present ones."""
    known = [marker.provenance["versions"] for step in steps if (marker := marker_of(step)) and marker.provenance]
    return list(
        dict.fromkeys(
            as_text({name: values}) for before in known for name, values in differences(before, _versions()).items()
        )
    )


def output_digest(step: Step) -> str:
    """Digest of what a finished step has written: equal outputs have equal digests, whenever they were made."""
    if step.kind in _FROM_INPUTS:
        return step.key
    return json_digest({step.neutral(str(path)): fingerprint(path) for path in step.writes})


def fingerprint(path: Path) -> str:
    """Digest of the content of a file, a checkpoint, encoded texts or any other folder, without times.

    The records of a checkpoint and of encoded texts hold the hashes of their files, which are not read again.
    """
    if (path / NOTES).is_file():
        with suppress(LearnedSparseError):  # the step that reads a broken checkpoint reports it
            if (notes := read_notes(path)).files:
                content = asdict(notes)
                return json_digest({key: value for key, value in content.items() if key not in {"recipe", "training"}})
    if (path / MANIFEST).is_file():
        manifest = Manifest.load(path)
        return json_digest([manifest.settings(), [asdict(part) for part in manifest.parts]])
    if path.is_dir():
        return json_digest({file.relative_to(path).as_posix(): _file_hash(file) for file in _files(path)})
    if not path.is_file():
        raise LearnedSparseError(f"{path}: no such file or folder")
    return _file_hash(path)


def json_digest(content: Any) -> str:
    """SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _file_hash(path: Path) -> str:
    return _hash_once(str(path.resolve()), *_file_state(path), store=home() / "reproduce" / "files.json")


@cache
def _hash_once(name: str, size: int, time: int, *, store: Path) -> str:
    """SHA-256 of a file, stored in the home folder with the file's size and time so that it is computed once."""
    known: dict[str, Any] = read_json(store) if store.is_file() else {}
    if known.get(name, [None])[0] != [size, time]:
        known[name] = [[size, time], sha256(name)]
        write_json(store, known)
    return str(known[name][1])


def _versions() -> dict[str, str]:
    return {**versions(), "pyserini": importlib.metadata.version("pyserini")}


@cache
def _commit() -> str | None:
    """The commit of the source that runs, with ``+`` if files differ from it; None for an installed package."""
    git = ["git", "-C", str(Path(__file__).parent)]
    try:
        top, commit = (_output([*git, "rev-parse", word]) for word in ("--show-toplevel", "HEAD"))
        ours = Path(top) / "eval" / "reproduce" / Path(__file__).name
        changed = _output([*git, "status", "--porcelain", "--untracked-files=no"])
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{commit}{'+' if changed else ''}" if ours.exists() and ours.samefile(__file__) else None


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=True).stdout.strip()


def _values(path: Path, key: str) -> Iterator[str]:
    """The values of ``key: value`` lines in a file of the operating system; none if it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    yield from (line.partition(":")[2].strip() for line in lines if line.startswith(key))


def _file_state(path: Path) -> list[int]:
    """Size in bytes and time of the last change in nanoseconds."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _output_state(step: Step) -> dict[str, Any]:
    """``{file: [bytes, nanoseconds]}`` of all files below the step's output paths."""
    files = (file for path in step.writes for file in (_files(path) if path.is_dir() else [path]))
    return {step.neutral(str(file)): _file_state(file) for file in files if file.is_file()}


def _files(folder: Path) -> list[Path]:
    """All files below a folder; those of a killed command, such as locks, begin with a dot."""
    return sorted(file for file in folder.rglob("*") if file.is_file() and not file.name.startswith("."))


def _changed_arguments(before: Sequence[str], now: Sequence[str]) -> str:
    """The arguments that only one of two command lines has.

    >>> _changed_arguments(["--bits", "8"], ["--bits", "4"]), _changed_arguments(["--a"], ["--a"])
    ('8 before, 4 now', '')
    """
    removed, added = [word for word in before if word not in now], [word for word in now if word not in before]
    return f"{' '.join(removed) or 'nothing'} before, {' '.join(added) or 'nothing'} now" if removed or added else ""


def _path(kind: str, step: Step) -> Path:
    return home() / "reproduce" / kind / f"{step.name}.json"
