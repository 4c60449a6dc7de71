"""The commands that write, each on toy data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from tests.reliability.processes import Result, Run, run_one
from tests.toy_data import WORDS, save_beir, save_recipes

Tree = dict[str, bytes]
"""Bytes of each file below a folder, by path."""
_TIMES = re.compile(
    rb'"(seconds|examples_per_second)": [0-9.e+-]+|^  "(sha256|checksum)": "[0-9a-f]{64}"', re.MULTILINE
)
"""Times in JSON, and the checksum of a record with times."""
_TEMPORARY = re.compile(r"(^|/)(\.[^/]*\.(tmp|replaced)|\.training|source)(/|$)")
_INCOMPLETE = b'"complete": false'
"""In a manifest of vectors or queries that are still being encoded."""
_FOR_RESUMING = re.compile("/(training|progress)/")
_LOCK = re.compile(r"(^|/)\.[^/]*\.lock$")
_LUCENE = re.compile(r"\.(si|cfs|cfe|fnm|fdm|fdt|fdx|doc|pos|pay|tim|tip|tmd|dvd|dvm|nvd|nvm|psm)$|(^|/)segments_\d+$")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A command that writes below the folder ``out`` of its working directory."""

    name: str
    command: str
    """The words after ``python -m``; ``{NAME}`` is a path of ``World``."""
    again: str = ""
    """A further argument when the command is given once more after a kill."""
    replace: str = "--overwrite"
    """A further argument that replaces an earlier result; empty: there is no such option."""
    earlier: str = ""
    """The last words of the command that made the earlier result."""
    environment: Mapping[str, str] = field(default_factory=dict)
    incremental: bool = False
    """Files appear one by one; else the whole result appears at once."""
    finished: str = ""
    """The file that is written last, if ``incremental``; empty: each file is whole by itself."""
    compared: str = ""
    """Pattern of the files that are compared; the others hold times."""

    def run(self, folder: Path, more: str = "", **options: Any) -> Run:
        """A run in ``folder``."""
        module, *arguments = f"{self.command} {more}".split()
        return Run(module=module, arguments=tuple(arguments), folder=folder, environment=self.environment, **options)

    def compared_files(self, folder: Tree) -> Tree:
        """The files that are compared."""
        return {name: content for name, content in folder.items() if re.search(self.compared, name)}

    def moment_problem(self, old: Tree, new: Tree, now: Tree) -> str:
        """What is wrong with the files ``now`` of a run that failed; empty if they are allowed.

        They are the old result, the new one, or nothing. A result of which files appear one by one may be incomplete
        while the file that is written last is absent or says so.
        """
        if now in ({}, old, new):
            return ""
        if not self.incremental:
            return f"neither nothing nor the old nor the new result: {sorted(now)}"
        last = now.get(self.finished, _INCOMPLETE)
        if not self.finished:
            torn = [name for name, content in now.items() if content not in (new.get(name), old.get(name))]
            torn = [name for name in torn if _INCOMPLETE not in now[name]]
            return f"neither old nor new: {torn}" if torn else ""
        if _INCOMPLETE in last:
            return ""
        for whole in (old, new):
            if last == whole.get(self.finished):  # files below these folders are for resumed runs only
                wrong = [name for name in whole if not _FOR_RESUMING.search(name) and now.get(name) != whole[name]]
                return f"complete by {self.finished}, but different: {wrong}" if wrong else ""
        return f"{self.finished} is neither the old nor the new one"


def is_temporary(name: str) -> bool:
    """Whether a path below the working directory is that of a temporary file."""
    return bool(_TEMPORARY.search(name))


def everything(folder: Path) -> Tree:
    """The files below ``folder``, without times and random ids of Lucene.

    Lock files are left out: the one of a killed process stays until something is written there again.
    """
    files: Tree = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not _LOCK.search(name):
            files[name] = _neutral(name, path.read_bytes())
    return files


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
            name="train", again="--resume", incremental=True, finished="model/learned_sparse.json",
            command="encoders.train --recipe {recipe} --output out/model --device cpu --quiet --set seed=42",
            earlier="seed=41",
        ),
        Case(
            name="encode", again="--resume", incremental=True, finished="vectors/manifest.json", earlier="--bits 4",
            command=f"{ENCODE} --input {{toy}}/corpus.jsonl --output out/vectors --part-size 6 --gzip --bits 8",
        ),
        Case(name="queries", command=f"{ENCODE} --queries --input {{topics}} --output out/queries --bits 8"),
        Case(
            name="prune", again="--overwrite", earlier="2",
            command="learned_sparse.jsonvector prune --vectors {encode}/vectors --output out/pruned --top-dimensions 3",
        ),
        Case(
            name="index", earlier="{earlier-encode}/vectors",
            command="learned_sparse.index --index out/index --threads 1 --input {encode}/vectors",
        ),
        Case(
            name="search", replace="",
            command="learned_sparse.search --index {index}/index --topics {topics} --output out/runs/run.txt --hits 5 "
            "--batch-size 2",
        ),
        Case(
            name="reproduce", environment={"LEARNED_SPARSE_HOME": "out"}, incremental=True, replace="",
            command="eval.reproduce --matrix {matrix} --output out/results --in-process",
            compared=r"^(runs|evaluations|queries)/|^vectors/[^/]*/[^/]*/vectors/|^checkpoints/[^/]*/learned_sparse.json$",
        ),
    )
}  # fmt: skip
"""Index: of the vectors. Reproduce: a trained model."""


class World:
    """Toy data, and results of the commands that later commands read, made when they are first used."""

    def __init__(self, folder: Path, backbone: Path) -> None:
        self._folder = folder
        names = {"toy": "toy", "topics": "topics.tsv", "recipe": "recipes/small-splade.yaml", "matrix": "matrix.yaml"}
        self._files = {name: folder / file for name, file in names.items()}
        self._made: dict[str, Result] = {}
        words, toy = WORDS[:15], str(self["toy"])
        texts = {f"d{n}": " ".join(words[(n * 3 + i * (1 + n % 4)) % 15] for i in range(6)) for n in range(24)}
        queries = {f"q{n}": " ".join(text.split()[:2]) for n, text in enumerate(texts.values())}
        judged = [(f"q{n}", f"d{n}", 1) for n in range(24)]
        save_beir(self["toy"], texts, queries, {"train": judged[8:], "dev": judged[4:8], "test": judged[:4]})
        self["topics"].write_text("".join(f"{name}\t{text}\n" for name, text in list(queries.items())[:6]))
        run = "".join(f"q{n} Q0 d{(n + i) % 24} {i + 1} {9 - i} bm25\n" for n in range(24) for i in range(4))
        (folder / "train.run").write_text(run, encoding="utf-8")
        save_recipes(folder / "recipes", ["small-splade"], backbone, -0.5)
        values = yaml.safe_load(self["recipe"].read_text(encoding="utf-8"))
        values["data"] = [{"collection": toy, "split": "train", "run": str(folder / "train.run")}]
        validation = {"collection": toy, "split": "dev", "queries": 4, "pool": 20, "every": 2}
        values |= {"validation": validation, "save_every": 2, "log_every": 1}
        values["stages"][0] |= {"steps": 6, "batch_size": 4}
        self["recipe"].write_text(yaml.safe_dump(values), encoding="utf-8")
        matrix = {
            "title": "Toy", "hits": 10,
            "columns": {"toy": {"collection": toy, "split": "test", "measures": ["MRR@10"]}},
            "rows": {"tiny": {"recipe": str(self["recipe"]), "backend": "exact"}},
        }  # fmt: skip
        self["matrix"].write_text(yaml.safe_dump(matrix, sort_keys=False), encoding="utf-8")

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
