"""The commands that write, each on toy data."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.reliability.processes import Result, Run, run_one
from tests.toy_data import save_collection, save_recipes

Tree = dict[str, bytes]
"""Bytes of each file below a folder, by path."""
_TIMES = re.compile(
    rb'"(seconds|examples_per_second)": [0-9.e+-]+|^  "(sha256|checksum)": "[0-9a-f]{64}"', re.MULTILINE
)
"""Times in JSON, and the checksum of a record with times."""
_TEMPORARY = re.compile(r"(^|/)(\.[^/]*\.(tmp|replaced)|\.training|source)(/|$)")
_INCOMPLETE = b'"complete": false'
"""In a manifest of vectors that are still being encoded."""
_FOR_RESUMING = re.compile("/(training|progress)/")
_LOCK = re.compile(r"(^|/)\.[^/]*\.lock$")
_LUCENE = re.compile(r"\.(si|cfs|cfe|fnm|fdm|fdt|fdx|doc|pos|pay|tim|tip|tmd|dvd|dvm|nvd|nvm|psm)$|(^|/)segments_\d+$")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command that writes below the folder ``out`` of its working directory."""

    name: str
    command: str
    """The words after ``python -m``; ``{NAME}`` is a path of ``World``."""
    earlier: str = ""
    """The last words of the command that made an earlier result, which ``--overwrite`` replaces."""
    again: str = ""
    """A further argument when the command is given once more after a kill."""
    finished: str = ""
    """The file that is written last, if files appear one by one; empty: the whole result appears at once."""

    def run(self, folder: Path, more: str = "", **options: Any) -> Run:
        """A run in ``folder``."""
        return Run(command=f"{self.command} {more}", folder=folder, **options)

    def check_moment(self, old: Tree, new: Tree, now: Tree, context: object) -> None:
        """Raise if the files ``now`` of a run that failed are not allowed; temporary ones are.

        They are the old result, the new one, or nothing. A result of which files appear one by one may be incomplete
        while the file that is written last is absent or says so.
        """
        now = {path: content for path, content in now.items() if not is_temporary(path)}
        if now in ({}, old, new):
            return
        assert self.finished, f"neither nothing nor the old nor the new result: {sorted(now)}; {context}"
        last = now.get(self.finished, _INCOMPLETE)
        if _INCOMPLETE not in last:
            whole = next((tree for tree in (old, new) if last == tree.get(self.finished)), {})
            # files below these folders are for resumed runs only
            wrong = [name for name in whole if not _FOR_RESUMING.search(name) and now.get(name) != whole[name]]
            assert whole, f"{self.finished} is neither the old nor the new one; {context}"
            assert not wrong, f"complete by {self.finished}, but different: {wrong}; {context}"


def is_temporary(name: str) -> bool:
    """Whether a path below the working directory is that of a temporary file."""
    return bool(_TEMPORARY.search(name))


def everything(folder: Path) -> Tree:
    """The files below ``folder``, without times and random ids of Lucene.

    Lock files are left out: the one of a killed process stays until something is written there again.
    """
    names = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {name: _neutral(name, path.read_bytes()) for name, path in names.items() if not _LOCK.search(name)}


def _neutral(name: str, content: bytes) -> bytes:
    if _LUCENE.search(name) or name.endswith(".log"):
        return b"%d bytes" % (0 if name.endswith(".log") else len(content))
    if name.endswith((".json", ".jsonl")) and b"second" in content:
        content = _TIMES.sub(b"", content)
    if name.endswith("/log.jsonl"):  # a run that was killed and resumed logs some steps twice
        content = b"".join(sorted(set(content.splitlines(keepends=True))))
    return content


def assert_same(now: Tree, whole: Tree, when: str = "") -> None:
    """Raise with the files that differ."""
    different = [name for name in sorted(now.keys() | whole.keys()) if now.get(name) != whole.get(name)]
    assert not different, f"{different} differ at the end {when}"


ENCODE = "learned_sparse.encode --model tiny --checkpoint {train}/model --device cpu --dtype fp32"
CASES = {
    case.name: case
    for case in (
        Case(
            name="train", again="--resume", finished="model/learned_sparse.json", earlier="seed=41",
            command="encoders.train --recipe {recipe} --data {toy}:train,run={run} --output out/model --device cpu "
            '--quiet --set validation={{"collection":"{toy}","split":"dev","every":2}} --set save_every=2 '
            "--set log_every=1 --set stages.0.steps=6 --set precision=fp32 --set seed=42",
        # oneDNN in bf16 with AMX can crash when it gets no memory
        ),
        Case(
            name="encode", again="--resume", finished="vectors/manifest.json", earlier="--bits 4",
            command=f"{ENCODE} --input {{toy}}/corpus.jsonl --output out/vectors --part-size 4 --gzip --bits 8",
        ),
        Case(
            name="index", earlier="{earlier-encode}/vectors",
            command="learned_sparse.index --index out/index --threads 1 --input {encode}/vectors",
        ),
        Case(name="queries", command=f"{ENCODE} --queries --input {{topics}} --output out/queries --bits 8"),
        Case(
            name="search",
            command="learned_sparse.search --index {index}/index --topics {topics} --output out/runs/run.txt --hits 5",
        ),
    )
}  # fmt: skip
WRITERS = ("train", "encode", "index")
"""Commands that have a writer of their own."""


class World:
    """Toy data, and results of the commands that later commands read, made when they are first used."""

    def __init__(self, folder: Path, backbone: Path) -> None:
        self._folder = folder
        names = {"toy": "toy", "topics": "toy/queries.jsonl", "recipe": "recipes/small-splade.yaml", "run": "train.run"}
        self._files = {name: folder / file for name, file in names.items()}
        self._made: dict[str, Result] = {}
        save_collection(self["toy"], ["train", "dev"])
        run = "".join(f"q{n} Q0 d{(n + i) % 12} {i + 1} {9 - i} bm25\n" for n in range(12) for i in range(4))
        self["run"].write_text(run, encoding="utf-8")
        save_recipes(folder / "recipes", ["small-splade"], backbone, -0.5)

    def __getitem__(self, name: str) -> Path:
        """A file or folder of the toy data, or the result of the case ``name``."""
        return self._files[name] if name in self._files else self.result(self.case(name))

    def case(self, name: str) -> Case:
        """The case ``NAME``, or ``earlier-NAME``, which makes an earlier result."""
        case = CASES[name.removeprefix("earlier-")]
        words = case.command.split()
        if case.name != name:
            words[-len(case.earlier.split()) :] = [case.earlier]
        return replace(case, name=name, command=" ".join(words).format_map(self))

    def undisturbed(self, case: Case) -> Result:
        """How a run of ``case`` ends that nothing disturbs."""
        if case.name not in self._made:
            folder = self._folder / "made" / case.name
            folder.mkdir(parents=True, exist_ok=True)
            self._made[case.name] = run_one(case.run(folder))
            assert self._made[case.name].status == 0, self._made[case.name].output
        return self._made[case.name]

    def result(self, case: Case) -> Path:
        """The folder ``out`` of this run."""
        self.undisturbed(case)
        return self._folder / "made" / case.name / "out"
