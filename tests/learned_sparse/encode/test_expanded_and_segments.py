"""Expanded text and segments of documents: read or cut, passed to encoders, added up and counted; errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.documents import Document, DocumentReader, Fields, parse_json, parse_tsv, read_documents
from learned_sparse.collections.segments import Segmentation
from learned_sparse.collections.topics import read_queries
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import BadLineError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import EXPANDED, SparseBatch
from learned_sparse.encode import pipeline
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.reader import read_vectors
from learned_sparse.search.query_encoder import QueryEncoder
from tests.fake_encoder import FakeEncoder, WordEncoder, install_loader
from tests.learned_sparse.input_files import encode_file, write

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
    return write(tmp_path / "corpus.jsonl", *map(json.dumps, DOCUMENTS))


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


@pytest.mark.parametrize("name", LINES)
def test_predicted_queries_of_a_file_are_read_in_the_order_of_the_documents(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "corpus.tsv", "d1\thives\nd2\twing\nd3\trash\n")
    path = file = tmp_path / name
    write(file, LINES[name])
    if path.parent != tmp_path:
        path = file.parent
        write(path / "1.tsv", "d1\titchy\nd1\tskin\n")
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
    write(tmp_path / name, content)
    write(tmp_path / "corpus.tsv", "d3\trash\nd4\twing\n")
    documents = read_documents(tmp_path / "corpus.tsv", expanded=tmp_path / name)
    found: list[str] = []
    with pytest.raises(LearnedSparseError, match=message):
        found.extend(document.id for document in documents)
    assert documents.read == read


def test_documents_with_other_predicted_queries_are_refused(corpus: Path, tmp_path: Path) -> None:
    write(tmp_path / "e.tsv", "d1\ta\n")
    with pytest.raises(LearnedSparseError, match=r"corpus\.jsonl:1: the document has other expanded text; omit"):
        list(read_documents(corpus, expanded=tmp_path / "e.tsv"))


FACTOR = ["--quantization-factor", "100"]
LONG = {"d1": "w1 w2  w3 w4 w5", "d2": "w1", "d3": "w6 w7 w8 w9"}


@pytest.fixture(autouse=True)
def words_are_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word is a token, and an encoder reads twelve."""
    install_loader(monkeypatch, lambda _, side, **__: WordEncoder(side, max_length=12))


def encode_segments(folder: Path, *options: str, output: str = "out") -> Manifest:
    lines = [json.dumps({"id": name, "text": text, "expanded": "more"}) for name, text in LONG.items()]
    return encode_file(write(folder / "corpus.jsonl", *lines), folder / output, *options)


def contents(folder: Path) -> dict[str, str]:
    files = sorted((folder / "vectors").glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {row["id"]: row["contents"] for row in rows}


def test_all_segments(tmp_path: Path) -> None:
    manifest = encode_segments(tmp_path, "--segment-length", "2", "--part-size", "3")
    assert contents(tmp_path / "out") == {
        "d1#0": "w1 w2", "d1#1": "w3 w4", "d1#2": "w5", "d2#0": "w1", "d3#0": "w6 w7", "d3#1": "w8 w9",
    }  # fmt: skip
    assert (manifest.counts.segmented, manifest.counts.read, manifest.counts.written) == (3, 6, 6)
    assert manifest.counts.largest_segments == 3
    assert Segmentation.recorded(manifest.options) == Segmentation(length=2)


@pytest.mark.parametrize("which", ["sum", "decay"])
def test_segments_add_up_to_the_vector_of_their_document(which: str, tmp_path: Path, monkeypatch: Any) -> None:
    """However many segments the documents of a slice have, a call of the encoder has as many texts as without."""

    def encode_two(encoder: WordEncoder, texts: list[str]) -> SparseBatch:
        assert len(texts) == 2
        return encoder.encode(texts)

    monkeypatch.setattr(pipeline, "SLICE_SIZE", 2)
    monkeypatch.setattr(WordEncoder, "encode_prepared", encode_two)
    manifest = encode_segments(tmp_path, "--segment-length", "2", "--segments", which, "--part-size", "2", *FACTOR)
    impacts = dict(read_vectors(tmp_path / "out"))
    assert contents(tmp_path / "out") == LONG
    cut = {"d1": ["w1 w2", "w3 w4", "w5"], "d2": ["w1"], "d3": ["w6 w7", "w8 w9"]}
    encoder = WordEncoder("document")
    for name, texts in cut.items():
        total: dict[str, float] = {}
        for number, text in enumerate(texts):
            for term, weight in encoder.encode([text]).row(0).items():
                total[term] = total.get(term, 0.0) + weight / (number + 1 if which == "decay" else 1)
        assert impacts[name] == {term: round(100 * weight) for term, weight in total.items()}
    assert (manifest.counts.segmented, manifest.counts.written) == (0, 3)
    shards = ["--num-shards", "2", "--part-size", "2", "--segment-length", "2", "--segments", which, *FACTOR]
    for shard in range(2):
        encode_segments(tmp_path, *shards, "--shard-id", str(shard), output=f"s{shard}")
    assert dict(read_vectors(tmp_path / "s0")) | dict(read_vectors(tmp_path / "s1")) == impacts


def test_segments_above_the_maximum_length_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="give at most 10, or a larger --max-length"):
        encode_segments(tmp_path, "--segment-length", "11")
    assert encode_segments(tmp_path, "--segment-length", "10").counts.written == 3


def test_a_segment_is_not_cut_for_its_expansion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 12 tokens, [CLS] and two [SEP], half are left for a segment, and half for the expansion."""
    monkeypatch.setattr(WordEncoder, "uses_expanded", True)
    for which in ("all", "sum"):
        with pytest.raises(LearnedSparseError, match=r"document 'd1' has expanded text.*give at most 4"):
            encode_segments(tmp_path, "--segment-length", "5", "--segments", which, output=f"{which}-5")
        assert (
            encode_segments(tmp_path, "--segment-length", "4", "--segments", which, output=which).counts.expanded >= 3
        )


def test_spans_of_words() -> None:
    """Long words are segments; an overlap has at most the given number of tokens: one word of two, not two words."""
    words = [(0, 1, 9), (2, 3, 1), (4, 5, 2), (6, 7, 9)]
    assert Segmentation(length=3, overlap=2).spans(words) == [(0, 1), (2, 5), (6, 7)]
    assert Segmentation(length=3).spans([]) == []
    for tokens, overlap, spans in ((1, 2, [(0, 4), (2, 6)]), (2, 3, [(0, 2), (1, 3), (2, 4), (3, 5), (4, 6)])):
        words = [(start, start + 1, tokens) for start in range(6)]
        assert Segmentation(length=4, overlap=overlap).spans(words) == spans


def test_skipped_lines_are_counted_with_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("d4", ""), ("d 5", "white space in its id")):
        monkeypatch.setitem(LONG, name, text)
    counts = encode_segments(tmp_path, "--segment-length", "2", "--on-bad-line", "skip").counts
    assert counts.skipped == {"unusable id": 1}
    assert (counts.read, counts.written, counts.segmented, counts.empty_texts) == (8, 7, 4, 1)
