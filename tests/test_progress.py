"""Long commands show a progress bar on a terminal, print what they wrote, and a next command that runs."""

from __future__ import annotations

import io
import logging
import re
import shlex
import sys
from functools import partialmethod
from pathlib import Path

import pytest
import tqdm.std

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core import errors
from tests.reliability.processes import main_of
from tests.toy_data import save_collection

MODEL = "--model m --checkpoint {checkpoint} --device cpu --dtype fp32"
BARS = [
    (f"learned_sparse.encode {MODEL} --input {{toy}}/corpus.jsonl --output {{out}}", "12/12", "12 documents of"),
    (
        "learned_sparse.search --backend exact --vectors {vectors} --topics {toy}/queries.jsonl --output {out}",
        "12/12", "{out}: 12 queries",
    ),
    ("learned_sparse.export --format ciff --vectors {vectors} --output {out}", "12/12", "{out}: 12 documents"),
    ("learned_sparse.jsonvector prune --vectors {vectors} --top-dimensions 1 --output {out}", "12/12", "12 documents"),
    ("eval.costs --vectors {vectors} --queries {queries} --output {out}", "236/236", "{out}: "),
    (
        "encoders.teach --collection {toy} --split test --run {run} --checkpoint {checkpoint} --output {out}",
        "12/12", "{out}: 12 pairs of 12 queries",
    ),
]  # fmt: skip
"""A command, what its bar shows, and what it prints at its end."""


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self) -> bool:
        return True


def printed_by(words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines that a command, which must succeed, prints on standard output; standard error gets no bar."""
    module, *arguments = shlex.split(words)
    assert main_of(module)(arguments) == 0
    printed = capsys.readouterr()
    assert "%|" not in printed.err
    return printed.out.splitlines()


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> dict[str, Path]:
    """A collection, a checkpoint, encoded documents and queries, and a run."""
    folder = tmp_path_factory.mktemp("progress")
    paths = {name: folder / name for name in ("toy", "checkpoint", "vectors", "queries", "run")}
    save_collection(paths["toy"], ["test"])
    save_checkpoint(paths["checkpoint"], new_model("splade", {}, str(tiny_bert)))
    paths["run"].write_text("q0 Q0 d0 1 2.0 t\n", encoding="utf-8")
    encode = main_of("learned_sparse.encode")
    for words in (
        "--input {toy}/corpus.jsonl --output {vectors}",
        "--queries --input {toy}/queries.jsonl --output {queries}",
    ):
        assert encode(shlex.split(f"{MODEL} {words}".format(**paths))) == 0
    return paths


@pytest.mark.parametrize(("words", "shown", "end"), BARS)
def test_bar_and_end(
    words: str, shown: str, end: str, paths: dict[str, Path], tmp_path: Path, tmp_home: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    named = {**paths, "out": tmp_path / "out"}
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", terminal)
        patch.setattr(tqdm.std.tqdm, "__init__", partialmethod(tqdm.std.tqdm.__init__, mininterval=0, miniters=1))
        printed = printed_by(words.format(**named), capsys)
    assert shown in terminal.getvalue()
    assert re.search(r"\d+%\||\d+ documents \[", terminal.getvalue())
    assert any(end.format(**named) in line for line in printed)


def test_a_message_stands_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with errors._messages_to_stderr(), errors.progress_bar(None, "encoding", "queries", 3):
        logging.getLogger("learned_sparse").info("two terms were left out")
    bar, message, again, *_ = re.split(r"(two terms were left out\n)", terminal.getvalue())
    assert bar.rstrip("\r ").endswith("queries/s]")
    assert message
    assert again.lstrip("\r").startswith("encoding: ")


@pytest.mark.jvm
@pytest.mark.parametrize("before", [["encode", "index"], ["index"]])
def test_next_commands_lead_to_measures(
    before: list[str], paths: dict[str, Path], tmp_path: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each printed command is run as it stands, up to the one that measures, or that needs a file of the user."""
    if before[0] == "encode":
        words = f"learned_sparse.encode {MODEL} --input {{toy}}/corpus.jsonl --output {tmp_path}/'my vectors'"
    else:
        words = "learned_sparse.index --bm25 --collection {toy}"
    words, modules = words.format(**paths), []
    while words:
        modules.append(words.split()[0].rpartition(".")[2])
        last = printed_by(words, capsys)[-1]
        words = last.partition("next: python -m ")[2]
        words = words.replace("QUERIES.tsv", str(paths["toy"] / "queries.jsonl"))
        words = words.replace("QRELS.txt", str(paths["toy"] / "qrels" / "test.tsv"))
    assert modules == [*before, "search", "evaluate"]
    assert re.search(r"[01]\.\d{4}$", last)
