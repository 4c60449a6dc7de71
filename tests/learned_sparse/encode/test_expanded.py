"""Expanded text of documents is read from files, passed to encoders that use it, and counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.documents import parse_json, parse_tsv, read_documents
from learned_sparse.collections.lines import BadLineError
from learned_sparse.collections.topics import read_queries
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import EXPANDED, Document, SparseBatch
from learned_sparse.encode.__main__ import main
from learned_sparse.jsonvector import Manifest
from learned_sparse.search import QueryEncoder
from tests.fake_encoder import FakeEncoder, install_loader

DOCUMENTS: list[dict[str, Any]] = [
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


def test_a_part_with_other_expanded_text_is_encoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encode(tmp_path, monkeypatch, True)
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("what are hives", "where are bees"))  # equal length
    encoded, _ = encode(tmp_path, monkeypatch, True, "--resume")
    assert encoded[0] == f"hives{EXPANDED}where are bees"


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


LINES = {
    "queries.jsonl": '\ufeff{"id": "d2", "predicted_queries": ["lift", "drag"]}\n'
    '{"id": "d1", "expanded": "itchy skin"}\n',
    "queries.tsv": "d1\titchy\nd1\tskin\n\nd2\tlift\tdrag\n",
    "queries.txt": "d2\tlift drag\r\nother\tunused\nd1\titchy skin\r\n",
}


@pytest.mark.parametrize("name", LINES)
def test_predicted_queries_of_a_file_are_joined_by_id_in_any_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plain = [{"id": document["id"], "text": document["text"]} for document in DOCUMENTS]
    (tmp_path / "corpus.jsonl").write_text("".join(f"{json.dumps(document)}\n" for document in plain))
    file = tmp_path / name
    file.write_text(LINES[name], encoding="utf-8", newline="")
    encoded, manifest = encode(tmp_path, monkeypatch, True, "--bits", "8", "--expanded", str(file))
    assert encoded == [f"hives{EXPANDED}itchy skin", f"wing{EXPANDED}lift drag", "rash"]
    assert manifest.counts.expanded == 2
    assert manifest.options["expanded"] == str(file)
    assert manifest.input[-1] == {"expanded": str(file), "bytes": file.stat().st_size}
    unused = 1 if name == "queries.txt" else 0
    source = tmp_path / "corpus.jsonl"
    message = (
        f"{file}: predicted queries of 2 documents of {source}; 1 documents have none, {unused} ids are of no document"
    )
    assert message in caplog.messages


def test_a_folder_of_predicted_queries_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "queries").mkdir()
    for number in range(3):
        lines = "".join(f"d{3 * number + row}\tquery {number} {row}\n" for row in range(3))
        (tmp_path / "queries" / f"{number}.tsv").write_text(lines)
    (tmp_path / "corpus.tsv").write_text("".join(f"d{row}\ttext\n" for row in reversed(range(9))))
    documents = list(read_documents(tmp_path / "corpus.tsv", expanded=tmp_path / "queries"))
    assert [document.expanded for document in documents] == [
        f"query {row // 3} {row % 3}" for row in reversed(range(9))
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.tsv", "d1\ta\nd2\tb\nd1\tc\n", "'d1' has predicted queries in two places"),
        (
            "e.jsonl",
            '{"id": "d1", "expanded": "a"}\n{"id": "d1", "expanded": "b"}\n',
            "'d1' has predicted queries in two",
        ),
        ("e.tsv", "d1\ta\nd2\n", r"e.tsv:2: too few columns \(expected an id, a tab and predicted queries"),
        ("e.jsonl", '{"id": "d1", "text": "a"}\n', r"e.jsonl:1: no predicted queries"),
        ("e.tsv", "x\ta\n", "no id is that of a document of .*; is it of another collection"),
        ("e.csv", "d1,a\n", "predicted queries are read from .jsonl, .json, .tsv, .txt"),
        ("e.tsv", "d2\ta\n", "corpus.jsonl:2: the document has other expanded text of its own; leave .* out"),
    ],
)
def test_files_of_predicted_queries_that_cannot_be_joined(
    name: str, content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    documents = [DOCUMENTS[2], {"id": "d2", "text": "wing", **({"expanded": "x"} if content == "d2\ta\n" else {})}]
    (tmp_path / "corpus.jsonl").write_text("".join(f"{json.dumps(document)}\n" for document in documents))
    with pytest.raises(LearnedSparseError, match=message):
        encode(tmp_path, monkeypatch, True, "--expanded", str(tmp_path / name))


def test_expanded_text_that_nothing_reads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "e.tsv").write_text("d3\ta\n")
    with pytest.raises(LearnedSparseError, match="--expanded: fake does not read expanded text"):
        encode(tmp_path, monkeypatch, False, "--expanded", str(tmp_path / "e.tsv"))
    with pytest.raises(LearnedSparseError, match="--expanded is for documents"):
        encode(tmp_path, monkeypatch, True, "--queries", "--expanded", str(tmp_path / "e.tsv"))
