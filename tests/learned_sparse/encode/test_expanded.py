"""Expanded text of documents is read from files, passed to encoders that use it, and counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.documents import parse_json, parse_tsv
from learned_sparse.collections.lines import BadLineError
from learned_sparse.collections.topics import read_queries
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import EXPANDED, Document, SparseBatch
from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector import Manifest
from learned_sparse.search import QueryEncoder
from tests.fake_encoder import FakeEncoder, install_loader

DOCUMENTS = [
    {"id": "d1", "text": "hives", "expanded": "what are hives"},
    {"id": "d2", "text": "wing", "predicted_queries": ["lift of a wing", "drag"]},
    {"id": "d3", "text": "rash"},
]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


class _Recording(FakeEncoder):
    """Records the texts that it encodes."""

    def __init__(self, side: str, encoded: list[str], uses_expanded: bool) -> None:
        super().__init__(side)
        self.encoded, self.uses_expanded = encoded, uses_expanded

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        self.encoded += texts
        return super().encode(texts)


def encode(
    folder: Path, monkeypatch: pytest.MonkeyPatch, uses_expanded: bool, *options: str
) -> tuple[list[str], Manifest]:
    encoded: list[str] = []
    install_loader(monkeypatch, lambda _, side, **__: _Recording(side, encoded, uses_expanded))
    corpus = folder / "corpus.jsonl"
    if not corpus.exists():
        corpus.write_text("".join(f"{json.dumps(document)}\n" for document in DOCUMENTS))
    named = ["--model", "fake", "--checkpoint", "nowhere", "--input", str(corpus), "--output", str(folder / "out")]
    assert main([*named, *options]) == 0
    return encoded, Manifest.load(folder / "out")


def test_expanded_text_is_passed_to_encoders_that_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded, manifest = encode(tmp_path, monkeypatch, True, "--bits", "8")
    assert encoded == [f"hives{EXPANDED}what are hives", f"wing{EXPANDED}lift of a wing drag", "rash"]
    assert (manifest.counts.expanded, manifest.counts.written) == (2, 3)
    first = json.loads((tmp_path / "out" / manifest.parts[0].file).read_text().splitlines()[0])
    assert first["contents"] == "hives"


def test_a_run_with_other_expanded_text_is_not_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode(tmp_path, monkeypatch, True)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("what are hives", "where are bees"))  # equal length
    with pytest.raises(LearnedSparseError, match="the input has changed"):
        encode(tmp_path, monkeypatch, True, "--resume")


def test_a_message_if_no_document_has_expanded_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps(DOCUMENTS[2]) + "\n")
    encoded, manifest = encode(tmp_path, monkeypatch, False)
    assert (encoded, manifest.counts.expanded) == (["rash"], 0)
    assert not caplog.records
    encode(tmp_path, monkeypatch, True, "--overwrite")
    assert "no document has any" in caplog.text


@pytest.mark.parametrize(
    ("value", "expanded"),
    [("a b", "a b"), (["a", "b c"], "a b c"), ([], ""), ("", ""), (None, ""), (" \n", ""), (f"a{EXPANDED}b", "a b")],
)
def test_values_of_expanded_text(value: Any, expanded: str) -> None:
    assert parse_json(json.dumps({"id": "d", "text": "t", "expanded": value}).encode()) == Document("d", "t", expanded)


@pytest.mark.parametrize("value", [3, {"q": "a"}, ["a", 3], [["a"]], True])
def test_values_that_are_no_text(value: Any) -> None:
    with pytest.raises(BadLineError, match=r"expanded text is not a string \(nor a list of strings: "):
        parse_json(json.dumps({"id": "d", "text": "t", "expanded": value}).encode())


def test_input_cannot_contain_the_separator(tmp_path: Path) -> None:
    assert parse_json(b'{"id": "d", "text": "a\\u001fb", "title": "t\\u001f"}').text == "t  a b"
    assert parse_tsv(f"d\ta{EXPANDED}b".encode()).text == "a b"
    assert parse_tsv(f"d\t{EXPANDED}".encode()).text == " "
    (tmp_path / "topics.tsv").write_text(f"q\tcan{EXPANDED}hives\n")
    assert [query.text for query in read_queries(tmp_path / "topics.tsv")] == ["can hives"]
    encoded: list[str] = []
    QueryEncoder(_Recording("query", encoded, True), Quantizer(1.0)).encode(f"a{EXPANDED}b")
    assert encoded == ["a b"]


@given(TEXTS.filter(lambda text: text.replace(EXPANDED, " ").strip()), TEXTS)
def test_a_pair_contains_the_separator_once(text: str, expanded: str) -> None:
    line = json.dumps({"id": "d", "text": text, "expanded": expanded}).encode()
    document = parse_json(line)
    assert document.with_expanded.count(EXPANDED) == bool(document.expanded)
    assert document.with_expanded.partition(EXPANDED)[::2] == (document.text, document.expanded)
