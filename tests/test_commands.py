"""Every command: options are spelled in full, and wrong input gives one readable line and status 2."""

from __future__ import annotations

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core.errors import run_main
from tests.learned_sparse.encoded_folder import write_folder
from tests.test_layout import PACKAGES, commands
from tests.toy_data import save_collection

Main = Callable[[list[str] | None], int]


def main_of(command: str) -> Main:
    module = importlib.import_module(command)
    if hasattr(module, "__path__"):  # a package: its command is in __main__
        module = importlib.import_module(f"{command}.__main__")
    main: Main = module.main
    return main


def end_of(command: str, words: str, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """Exit status of the command with ``words`` as a shell splits them."""
    monkeypatch.setattr(sys, "argv", [command, *shlex.split(words)])
    with pytest.raises(SystemExit) as end:
        run_main(main_of(command))
    return end.value.code


@pytest.mark.parametrize("command", commands())
def test_options_are_not_abbreviated(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsers: list[argparse.ArgumentParser] = []
    create = argparse.ArgumentParser.__init__

    def recorded(self: argparse.ArgumentParser, *arguments: object, **options: object) -> None:
        create(self, *arguments, **options)  # type: ignore[arg-type]
        parsers.append(self)

    monkeypatch.setattr(argparse.ArgumentParser, "__init__", recorded)
    assert end_of(command, "--help", monkeypatch) == 0
    assert parsers
    assert [parser.prog for parser in parsers if parser.allow_abbrev] == []


@pytest.mark.parametrize("command", commands())
def test_an_unknown_option(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(command, "--no-such-option", monkeypatch) == 2
    assert "error: " in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("learned_sparse.search", "--index x --topics y --output z --hits 0"),
        ("learned_sparse.search", "--index x --topics y --output z --threads 0"),
        ("learned_sparse.index", "--model x --threads 0"),
        ("learned_sparse.index", "--model x --verify 0"),
        ("eval.reproduce", "--matrix demo --jobs 0"),
        ("eval.reproduce", "--matrix demo --threads -1"),
        ("eval.reproduce.prepare", "sample --collection x --split y --output z --depth 0"),
        ("eval.rerank", "--run x --collection y --model z --max-length 0"),
    ],
)
def test_numbers_out_of_range(
    command: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_of(command, words, monkeypatch) == 2
    assert "give at least 1" in capsys.readouterr().err


NO_ARGUMENTS = {
    *PACKAGES, "eval.demo", "learned_sparse.collections", "learned_sparse.serve",
}  # fmt: skip
"""Commands that do their work without arguments."""


@pytest.mark.parametrize("command", sorted({*commands()} - NO_ARGUMENTS))
def test_no_arguments(command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(command, "", monkeypatch) == 2
    assert "error: " in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("package", PACKAGES)
def test_the_list_of_the_commands_of_a_package(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_of(package, "", monkeypatch) == 0
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert {line.split()[0] for line in lines} == {name for name in commands() if name.startswith(f"{package}.")}
    assert all(len(line.split()) > 3 for line in lines)  # a name and a sentence


READS = [
    ("learned_sparse.collections", "{input}"),
    ("learned_sparse.encode", "--model m --checkpoint {input} --input {corpus} --output {output}"),
    ("learned_sparse.encode", "--model m --checkpoint {checkpoint} --input {input} --output {output}"),
    ("learned_sparse.encode", "--model m --checkpoint {checkpoint} --collection {input} --output {output}"),
    ("learned_sparse.encode", "--model m --checkpoint {checkpoint} --queries --input {input} --output {output}"),
    ("learned_sparse.search", "--backend exact --vectors {input} --query-vectors {topics} --output {output}"),
    ("learned_sparse.search", "--backend exact --vectors {vectors} --query-vectors {input} --output {output}"),
    ("learned_sparse.export", "--format pisa --vectors {input} --output {output}"),
    ("learned_sparse.export", "--format seismic --queries {input} --output {output}"),
    ("learned_sparse.index", "--input {input} --index {output}"),
    ("learned_sparse.index", "--input {input} --no-manifest --index {output}"),
    ("learned_sparse.index", "--bm25 --input {input} --index {output}"),
    ("learned_sparse.index", "--bm25 --collection {input} --index {output}"),
    ("learned_sparse.inspect", "--text word --checkpoint {input}"),
    ("learned_sparse.inspect", "--document d1 --index {input}"),
    ("learned_sparse.jsonvector", "check {input}"),
    ("learned_sparse.jsonvector", "prune --vectors {input} --output {output} --top-dimensions 1"),
    ("learned_sparse.search", "--index {input} --topics {topics} --output {output}"),
    ("learned_sparse.search", "--backend exact --vectors {input} --topics {topics} --output {output}"),
    ("learned_sparse.search", "--backend exact --vectors {vectors} --topics {input} --output {output}"),
    ("learned_sparse.search", "--backend exact --vectors {vectors} --query-vectors {input} --output {output}"),
    ("encoders.export", "--checkpoint {input} --to sentence-transformers --output {output}"),
    ("learned_sparse.serve", "--index {input} --port 0"),
    ("learned_sparse.serve", "--checkpoint {input} --port 0"),
    ("encoders.train", "--recipe {input} --output {output}"),
    ("encoders.train", "--recipe demo-splade --data {input} --output {output}"),
    ("eval.evaluate", "--run {run} --collection {collection} --overlap {input}"),
    ("eval.costs", "--index {input} --queries {input}"),
    ("eval.costs", "--vectors {input} --queries {input}"),
    ("eval.dimensions", "{input}"),
    ("eval.evaluate", "--run {input} --qrels {qrels} --measures MRR@10"),
    ("eval.evaluate", "--run {run} --qrels {input} --measures MRR@10"),
    ("eval.evaluate", "--run {run} --collection {input}"),
    ("eval.dimensions", "{vectors} --queries {input}"),
    ("eval.reproduce", "--report {input}"),
    ("eval.reproduce", "--matrix {input}"),
    ("eval.reproduce.prepare", "export --collection {input} --split test --output {output}"),
    ("eval.reproduce.prepare", "expand --collection {collection} --expanded {input} --output {output}"),
    (
        "eval.reproduce.prepare",
        "sample --collection {collection} --split test --run {input} --depth 1 --output {output}",
    ),
    ("eval.reproduce.prepare", "word-pieces --tokenizer {input} --output {output}"),
    ("eval.rerank", "--run {input} --collection {collection} --checkpoint {checkpoint}"),
    ("eval.rerank", "--run {run} --collection {collection} --checkpoint {input}"),
    ("eval.rerank", "--run {run} --collection {collection} --cross-encoder {input}"),
    ("eval.sweep", "--checkpoint {input} --collection {collection} --set k=1"),
    ("eval.sweep", "--checkpoint {checkpoint} --collection {input} --set k=1"),
]  # fmt: skip
"""Commands with one input that is not what it should be."""
INPUTS = ("missing", "folder", "text", "bytes", "loop")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> dict[str, Path]:
    """Valid inputs by name."""
    folder = tmp_path_factory.mktemp("valid")
    save_collection(folder / "collection", ["test"])
    save_checkpoint(folder / "checkpoint", new_model("splade", {}, str(tiny_bert)))
    write_folder(folder / "vectors", {"d1": {"a": 1}, "d2": {"a": 2, "b": 5}})
    for name, text in {"topics.tsv": "q1\ta b\n", "run": "q0 Q0 d1 1 2.0 t\n", "qrels": "q0 0 d1 1\n"}.items():
        (folder / name).write_text(text, encoding="utf-8")
    names = {"topics": "topics.tsv", "corpus": "collection/corpus.jsonl"}
    return {
        name: folder / names.get(name, name)
        for name in ("collection", "checkpoint", "vectors", "topics", "run", "qrels", "corpus")
    }


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
    command: str, words: str, name: str, files: dict[str, Path], wrong: dict[str, Path], tmp_path: Path,
    tmp_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    output = tmp_path / "output"
    line = words.format(input=wrong[name], output=output, **files)
    status = end_of(command, line, monkeypatch)
    printed = capsys.readouterr()
    if words.startswith("check"):
        assert status in {1, 2}  # 1: the problems are its output
    else:
        assert status == 2
        assert printed.err.splitlines()[-1].startswith("error: ")
        assert wrong[name].name in printed.err
    assert not output.exists()


WRITES = [
    ("learned_sparse.encode", "--model m --checkpoint {checkpoint} --input {corpus} --output {output}"),
    ("learned_sparse.encode", "--model m --checkpoint {checkpoint} --queries --input {topics} --output {output}"),
    ("learned_sparse.search", "--backend exact --vectors {vectors} --query-vectors {topics} --output {output}"),
    ("learned_sparse.export", "--format opensearch --vectors {vectors} --output {output}"),
    ("learned_sparse.index", "--input {vectors} --index {output}"),
    ("learned_sparse.jsonvector", "prune --vectors {vectors} --top-dimensions 1 --output {output}"),
    ("eval.reproduce.prepare", "expand --collection {collection} --output {output}"),
    ("eval.reproduce.prepare", "export --collection {collection} --split test --output {output}"),
    ("eval.reproduce.prepare", "word-pieces --tokenizer {checkpoint} --output {output}"),
]
WRITE_FILES = {"learned_sparse.search"}


@pytest.mark.parametrize("kind", ["below a file", "of the other kind", "without permission"])
@pytest.mark.parametrize(("command", "words"), WRITES)
def test_an_output_that_cannot_be_written(
    command: str, words: str, kind: str, files: dict[str, Path], tmp_path: Path, tmp_home: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file, folder, closed = tmp_path / "a-file", tmp_path / "a-folder", tmp_path / "closed"
    file.write_bytes(b"kept")
    (folder / "content").mkdir(parents=True)
    closed.mkdir(mode=0o500)
    if kind == "without permission" and os.access(closed, os.W_OK):
        pytest.skip("root may write everywhere")
    other = folder if command in WRITE_FILES else file
    output = {"below a file": file / "output", "of the other kind": other, "without permission": closed / "output"}[
        kind
    ]
    assert end_of(command, words.format(output=output, **files), monkeypatch) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: ")
    assert str(output) in last or str(output.parent) in last
    assert file.read_bytes() == b"kept"
    assert [path.name for path in folder.iterdir()] == ["content"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-file", "a-folder", "closed", "home"]
