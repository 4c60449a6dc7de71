"""Text that expands a document: read, handed to the encoders that want it, counted."""

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
from learned_sparse.jsonvector import Manifest, read_vectors
from learned_sparse.search import QueryEncoder
from tests.fake_encoder import FakeEncoder, install_loader

DOCUMENTS = [
    {"id": "d1", "text": "hives", "expanded": "what are hives"},
    {"id": "d2", "text": "wing", "predicted_queries": ["lift of a wing", "drag"]},
    {"id": "d3", "text": "rash"},
]

WHOLE = st.text(st.characters(exclude_categories=["Cs"]))


class _Listening(FakeEncoder):
    """Remembers what it is handed."""

    def __init__(self, side: str, heard: list[str], uses: bool) -> None:
        super().__init__(side)
        self.heard, self.uses_expanded = heard, uses

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        self.heard += texts
        return super().encode(texts)


def encode(folder: Path, monkeypatch: pytest.MonkeyPatch, uses: bool, *options: str) -> tuple[list[str], Manifest]:
    heard: list[str] = []
    install_loader(monkeypatch, lambda _, side, **__: _Listening(side, heard, uses))
    corpus = folder / "corpus.jsonl"
    if not corpus.exists():
        corpus.write_text("".join(f"{json.dumps(document)}\n" for document in DOCUMENTS))
    named = ["--model", "fake", "--checkpoint", "nowhere", "--input", str(corpus), "--output", str(folder / "out")]
    assert main([*named, *options]) == 0
    return heard, Manifest.load(folder / "out")


def test_an_encoder_that_wants_it_is_handed_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, manifest = encode(tmp_path, monkeypatch, True, "--bits", "8")
    assert heard == [f"hives{EXPANDED}what are hives", f"wing{EXPANDED}lift of a wing drag", "rash"]
    assert (manifest.counts.expanded, manifest.counts.written) == (2, 3)
    first = json.loads((tmp_path / "out" / manifest.parts[0].file).read_text().splitlines()[0])
    assert first["contents"] == "hives"


def test_others_never_see_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard, manifest = encode(tmp_path, monkeypatch, False)
    assert heard == ["hives", "wing", "rash"]
    assert manifest.counts.expanded == 0
    assert len(dict(read_vectors(tmp_path / "out"))) == 3


def test_a_run_is_not_resumed_with_other_expanded_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode(tmp_path, monkeypatch, True)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("what are hives", "where are bees"))  # as many bytes
    with pytest.raises(LearnedSparseError, match="the input has changed"):
        encode(tmp_path, monkeypatch, True, "--resume")


def test_a_model_that_wants_it_in_vain_is_a_remark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps(DOCUMENTS[2]) + "\n")
    encode(tmp_path, monkeypatch, False)
    assert not caplog.records
    encode(tmp_path, monkeypatch, True, "--overwrite")
    assert "no document has any" in caplog.text


@pytest.mark.parametrize(
    ("value", "expanded"),
    [("a b", "a b"), (["a", "b c"], "a b c"), ([], ""), ("", ""), (None, ""), (" \n", ""), (f"a{EXPANDED}b", "a b")],
)
@pytest.mark.parametrize("key", ["expanded", "predicted_queries"])
def test_both_keys(key: str, value: Any, expanded: str) -> None:
    assert parse_json(json.dumps({"id": "d", "text": "t", key: value}).encode()) == Document("d", "t", expanded)


@pytest.mark.parametrize("value", [3, {"q": "a"}, ["a", 3], [["a"]], True])
def test_what_is_no_text(value: Any) -> None:
    with pytest.raises(BadLineError, match=r"expanded text is not a string \(nor a list of strings: "):
        parse_json(json.dumps({"id": "d", "text": "t", "expanded": value}).encode())


def test_the_mark_is_never_read_from_a_file(tmp_path: Path) -> None:
    assert parse_json(b'{"id": "d", "text": "a\\u001fb", "title": "t\\u001f"}').text == "t  a b"
    assert parse_tsv(f"d\ta{EXPANDED}b".encode()).text == "a b"
    with pytest.raises(BadLineError, match="empty text"):
        parse_tsv(f"d\t{EXPANDED}".encode())
    (tmp_path / "topics.tsv").write_text(f"q\tcan{EXPANDED}hives\n")
    assert [query.text for query in read_queries(tmp_path / "topics.tsv")] == ["can hives"]
    heard: list[str] = []
    QueryEncoder(_Listening("query", heard, True), Quantizer(1.0)).encode(f"a{EXPANDED}b")
    assert heard == ["a b"]


@given(WHOLE.filter(lambda text: text.replace(EXPANDED, " ").strip()), WHOLE)
def test_a_pair_holds_the_mark_once(text: str, expanded: str) -> None:
    line = json.dumps({"id": "d", "text": text, "expanded": expanded}).encode()
    document = parse_json(line)
    assert document.with_expanded.count(EXPANDED) == bool(document.expanded)
    assert document.with_expanded.partition(EXPANDED)[::2] == (document.text, document.expanded)
