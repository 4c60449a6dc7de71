"""Expanded text of documents is read from files, passed to encoders that use it, and counted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.documents import DocumentReader, Fields, parse_json, parse_tsv, read_documents
from learned_sparse.collections.topics import read_queries
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import BadLineError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import EXPANDED, Document, SparseBatch
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.search.query_encoder import QueryEncoder
from tests.fake_encoder import FakeEncoder, install_loader
from tests.learned_sparse.encode.commands import encode_file

DOCUMENTS: list[dict[str, Any]] = [
    {"id": "d1", "text": "hives", "expanded": "what are hives"},
    {"id": "d2", "text": "wing", "predicted_queries": ["lift of a wing", "drag"]},
    {"id": "d3", "text": "rash"},
]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


class _Recording(FakeEncoder):
    """Records the texts that it encodes."""

    uses_expanded = True

    def __init__(self, side: str, encoded: list[str]) -> None:
        super().__init__(side)
        self.encoded = encoded

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        self.encoded += texts
        return super().encode(texts)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f"{json.dumps(document)}\n" for document in DOCUMENTS))
    return path


def encode(corpus: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[list[str], Manifest]:
    """The texts that the encoder got, and the manifest of ``out`` beside the corpus."""
    encoded: list[str] = []
    install_loader(monkeypatch, lambda _, side, **__: _Recording(side, encoded))
    return encoded, encode_file(corpus, corpus.parent / "out", *options)


def test_expanded_text_is_passed_to_encoders_that_use_it(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded, manifest = encode(corpus, monkeypatch, "--bits", "8")
    assert encoded == [f"hives{EXPANDED}what are hives", f"wing{EXPANDED}lift of a wing drag", "rash"]
    assert (manifest.counts.expanded, manifest.counts.written) == (2, 3)
    assert (corpus.parent / "out" / manifest.parts[0].file).read_text().startswith('{"id":"d1","contents":"hives",')
    corpus.write_text(corpus.read_text().replace("what are hives", "where are bees"))  # equal length
    encoded, _ = encode(corpus, monkeypatch, "--bits", "8", "--resume")
    assert encoded[0] == f"hives{EXPANDED}where are bees"


def document_of(parse: Callable[[Any], Fields], line: bytes) -> Document:
    return next(iter(DocumentReader([("line", parse, line)], source="lines")))


@pytest.mark.parametrize(
    ("value", "expanded"),
    [("a b", "a b"), (["a", "b c"], "a b c"), ([], ""), ("", ""), (None, ""), (" \n", ""), (f"a{EXPANDED}b", "a b")],
)
def test_values_of_expanded_text(value: Any, expanded: str) -> None:
    line = json.dumps({"id": "d", "text": "t", "expanded": value}).encode()
    assert document_of(parse_json, line) == Document("d", "t", expanded)


@pytest.mark.parametrize("value", [3, {"q": "a"}, ["a", 3], [["a"]], True])
def test_values_that_are_no_text(value: Any) -> None:
    with pytest.raises(BadLineError, match=r"expanded text is not a string \(nor a list of strings: "):
        parse_json(json.dumps({"id": "d", "text": "t", "expanded": value}).encode())


def test_input_cannot_contain_the_separator(tmp_path: Path) -> None:
    assert document_of(parse_json, b'{"id": "d", "text": "a\\u001fb", "title": "t\\u001f"}').text == "t  a b"
    assert document_of(parse_tsv, f"d\ta{EXPANDED}b".encode()).text == "a b"
    assert document_of(parse_tsv, f"d\t{EXPANDED}".encode()).text == " "
    (tmp_path / "topics.tsv").write_text(f"q\tcan{EXPANDED}hives\n")
    assert [query.text for query in read_queries(tmp_path / "topics.tsv")] == ["can hives"]
    encoded: list[str] = []
    QueryEncoder(_Recording("query", encoded), Quantizer(1.0)).encode(f"a{EXPANDED}b")
    assert encoded == ["a b"]


@given(TEXTS.filter(lambda text: text.replace(EXPANDED, " ").strip()), TEXTS)
def test_a_pair_contains_the_separator_once(text: str, expanded: str) -> None:
    line = json.dumps({"id": "d", "text": text, "expanded": expanded}).encode()
    document = document_of(parse_json, line)
    assert document.with_expanded.count(EXPANDED) == bool(document.expanded)
    assert document.with_expanded.partition(EXPANDED)[::2] == (document.text, document.expanded)


LINES = {
    "queries.jsonl": '\ufeff{"id": "d1", "expanded": "itchy skin"}\n'
    '{"id": "d2", "predicted_queries": ["lift", "drag"]}\n{"id": "d3", "predicted_queries": []}\n',
    "queries.tsv": "d1\titchy\nd1\tskin\n\nd2\tlift\tdrag\nd3\t\n",
    "queries.txt.gz": "d0\tnot in the collection\nd1\titchy skin\r\nd2\tlift drag\r\nother\tunused\nd3\t\n",
    "generated.jsonl": '{"_id": "d1", "title": "", "text": "hives", "query": "itchy"}\n{"_id": "d1", "query": "skin"}\n'
    '{"_id": "d2", "query": "lift drag"}\n{"_id": "d3", "query": ""}\n',  # BEIR's generated queries
    "expanded_collection.tsv": "d1\thives [SEP] itchy skin\nd2\twing [SEP] lift drag\nd3\trash [SEP]\n",  # DeepImpact's
    "folder/2.jsonl": '{"id": "d2", "expanded": "lift drag"}\n{"id": "d3", "expanded": ""}\n',
}


def save(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize("name", LINES)
def test_predicted_queries_of_a_file_are_read_in_the_order_of_the_documents(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "corpus.tsv", "d1\thives\nd2\twing\nd3\trash\n")
    path = file = tmp_path / name
    save(file, LINES[name])
    if path.parent != tmp_path:
        path = file.parent
        save(path / "1.tsv", "d1\titchy\nd1\tskin\n")
    encoded, manifest = encode(tmp_path / "corpus.tsv", monkeypatch, "--bits", "8", "--expanded", str(path))
    assert encoded == [f"hives{EXPANDED}itchy skin", f"wing{EXPANDED}lift drag", "rash"]
    assert manifest.counts.expanded == 2
    assert manifest.options["expanded"] == str(path)
    assert manifest.input[-1] == {"expanded": str(file), "bytes": file.stat().st_size}


@pytest.mark.parametrize(
    ("name", "content", "message", "read"),
    [
        ("e.tsv", "d3\ta\nd4\tb\nd3\tc\n", "e.tsv: the predicted queries of 'd3' come too late; put all queries", 2),
        ("e.tsv", "x\ta\n", "e.tsv: no predicted queries of document 'd3' .*give a file of this collection", 0),
        ("e.tsv", "d3\ta\nd4\n", r"e.tsv:2: too few columns \(expected an id, a tab and predicted queries", 0),
        ("e.jsonl", '{"id": "d3", "text": "a"}\n', r"e.jsonl:1: no predicted queries", 0),
    ],
)
def test_a_wrong_file_of_predicted_queries_is_noticed_at_the_first_document_without_any(
    name: str, content: str, message: str, read: int, tmp_path: Path
) -> None:
    save(tmp_path / name, content)
    save(tmp_path / "corpus.tsv", "d3\trash\nd4\twing\n")
    documents = read_documents(tmp_path / "corpus.tsv", expanded=tmp_path / name)
    found: list[str] = []
    with pytest.raises(LearnedSparseError, match=message):
        found.extend(document.id for document in documents)
    assert documents.read == read


def test_documents_with_other_predicted_queries_are_refused(corpus: Path, tmp_path: Path) -> None:
    save(tmp_path / "e.tsv", "d1\ta\n")
    with pytest.raises(LearnedSparseError, match=r"corpus\.jsonl:1: the document has other expanded text; omit"):
        list(read_documents(corpus, expanded=tmp_path / "e.tsv"))
