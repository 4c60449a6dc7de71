"""Long commands show a progress bar on a terminal, and print a next command that runs."""

from __future__ import annotations

import io
import logging
import re
import shlex
import sys
from pathlib import Path

import pytest

from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core import errors
from learned_sparse.ray import command_of
from tests.toy_data import save_collection

ENCODE = "learned_sparse.encode --model m --checkpoint checkpoint --device cpu --dtype fp32"


class Terminal(io.StringIO):
    """Standard error of a terminal."""

    def isatty(self) -> bool:
        return True


def printed_by(words: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Lines that a command, which must succeed, prints on standard output; standard error gets no bar."""
    module, *arguments = shlex.split(words)
    assert command_of(module)(arguments) == 0
    printed = capsys.readouterr()
    assert "%|" not in printed.err
    return printed.out.splitlines()


@pytest.fixture
def folder(tmp_path: Path, tmp_home: Path, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a collection and a checkpoint."""
    monkeypatch.chdir(tmp_path)
    save_checkpoint(tmp_path / "checkpoint", new_model("splade", {}, str(tiny_bert)))
    return save_collection(tmp_path / "toy", ["test"]).parent


def test_a_message_stands_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    def main(_: list[str] | None) -> int:
        with errors.progress_bar(None, "encoding", "queries", 3):
            logging.getLogger("learned_sparse").info("two terms were left out")
        return 0

    with pytest.raises(SystemExit):
        errors.run_main(main)
    bar, message, again, *_ = re.split(r"(two terms were left out\n)", terminal.getvalue())
    assert bar.rstrip("\r ").endswith("queries/s]")
    assert message
    assert again.lstrip("\r").startswith("encoding: ")


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("words", "commands"),
    [
        (f"{ENCODE} --input toy/corpus.jsonl --output 'my vectors'", ["encode", "index", "search", "evaluate"]),
        ("learned_sparse.index --bm25 --collection toy", ["index", "search", "evaluate"]),
    ],
)
def test_next_commands_lead_to_measures(
    words: str, commands: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each printed command is run as it stands, up to the one that measures, or that needs a file of the user."""
    run = []
    while words:
        run.append(words.split()[0].rpartition(".")[2])
        last = printed_by(words, capsys)[-1]
        words = last.partition("next: python -m ")[2]
        words = words.replace("QUERIES.tsv", "toy/queries.jsonl").replace("QRELS.txt", "toy/qrels/test.tsv")
    assert run == commands
    assert re.search(r"[01]\.\d{4}$", last)
