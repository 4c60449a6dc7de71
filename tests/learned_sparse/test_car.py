"""TREC CAR's CBOR files: paragraphs, outlines, both kinds of framing, and every way to be broken."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.documents import read_documents
from learned_sparse.collections.topics import read_queries
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import EXPANDED, Document, Query

TURTLES = [
    0,
    b"6f3a",
    [[0, "Green "], [1, [0, "Chelonia", ["Diet"], b"enwiki:Chelonia", "sea turtles"]], [0, " swim."]],
]
REEFS = [0, b"77b0", [[0, "Corals build reefs. ☃"]]]
DOCUMENTS = [Document("6f3a", "Green sea turtles swim."), Document("77b0", "Corals build reefs. ☃")]
PAGE = [
    0, "Green sea turtle", b"enwiki:Green%20sea%20turtle",
    [
        [1, TURTLES],
        [0, "Ecology", b"Ecology", [[2, "turtle.png", []], [0, "Diet", b"Diet", [[3, 1, REEFS]]]]],
        [0, "Life", b"Life", []],
        [0, "Life", b"Life", []],
    ],
]  # fmt: skip
QUERIES = [
    Query("enwiki:Green%20sea%20turtle/Ecology", "Green sea turtle Ecology"),
    Query("enwiki:Green%20sea%20turtle/Ecology/Diet", "Green sea turtle Ecology Diet"),
    Query("enwiki:Green%20sea%20turtle/Life", "Green sea turtle Life"),
]


@pytest.fixture(name="cbor2")
def installed_cbor2() -> Any:
    return pytest.importorskip("cbor2", reason="the extra 'data' is not installed")


def bare(cbor2: Any, records: Sequence[object]) -> bytes:
    """Release 1.5: one record after the other."""
    return b"".join(cbor2.dumps(record) for record in records)


def listed(cbor2: Any, records: Sequence[object], kind: int = 2) -> bytes:
    """With a header, and the records in an array without a stated length."""
    header: bytes = cbor2.dumps(["CAR", [kind], ["Wikipedia", "2016"]])
    return header + b"\x9f" + bare(cbor2, records) + b"\xff"


@pytest.mark.parametrize("frame", [bare, listed])
@pytest.mark.parametrize("name", ["paragraphs.cbor", "paragraphs.cbor.gz"])
def test_paragraphs_are_documents(cbor2: Any, tmp_path: Path, frame: Any, name: str) -> None:
    content = frame(cbor2, [TURTLES, REEFS])
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert list(read_documents(tmp_path / name)) == DOCUMENTS
    assert list(read_documents(tmp_path)) == DOCUMENTS  # a folder


@pytest.mark.parametrize("frame", [bare, listed])
def test_arrays_inside_may_leave_their_length_open(cbor2: Any, tmp_path: Path, frame: Any) -> None:
    """As Haskell's serialise writes lists."""
    path = tmp_path / "open.cbor"
    text = cbor2.dumps([0, "Corals build reefs. ☃"])
    record = b"\x83\x00" + cbor2.dumps(b"77b0") + b"\x9f" + text + b"\xff"
    path.write_bytes(frame(cbor2, [TURTLES, REEFS]).replace(cbor2.dumps(REEFS), record))
    assert list(read_documents(path)) == DOCUMENTS


@given(st.lists(st.lists(st.text(st.characters(exclude_characters=EXPANDED, exclude_categories=["Cs"]))), min_size=1))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]]) -> None:
    cbor2 = pytest.importorskip("cbor2", reason="the extra 'data' is not installed")
    path = tmp_path_factory.getbasetemp() / "any.cbor"
    path.write_bytes(listed(cbor2, [[0, b"%d" % i, [[0, part] for part in parts]] for i, parts in enumerate(texts)]))
    joined = {str(i): "".join(parts).strip() for i, parts in enumerate(texts)}
    expected = {name: text for name, text in joined.items() if text}
    if expected:
        reader = read_documents(path, on_bad_line="skip")
        assert {document.id: document.text for document in reader} == expected
        assert reader.empty == len(texts) - len(expected)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ([0, b"d", [[0, " "]]], "empty text"),
        ([0, b"d", []], "empty text"),
        ([0, b"", [[0, "text"]]], "missing id"),
        ([0, b"a b", [[0, "text"]]], "white space in id"),
        ([0, b"6f3a", [[0, "again"]]], "duplicate id"),
        ([1, b"d", [[0, "text"]]], "not a paragraph"),
        ([0, "d", [[0, "text"]]], "not a paragraph"),
        ([0, b"\xe9", [[0, "text"]]], "not a paragraph"),
        ([0, b"d", [[2, "text"]]], "not a paragraph"),
        ([0, b"d", [[0, 7]]], "not a paragraph"),
        ([0, b"d", [[1, [0, "page"]]]], "not a paragraph"),
        ([0, b"d"], "not a paragraph"),
    ],
)
def test_bad_paragraphs_are_reported_or_counted(cbor2: Any, tmp_path: Path, record: object, reason: str) -> None:
    path = tmp_path / "some.cbor"
    path.write_bytes(listed(cbor2, [TURTLES, record, REEFS]))
    with pytest.raises(LearnedSparseError, match=f"some.cbor, paragraph 2: {reason}"):
        list(read_documents(path))
    reader = read_documents(path, on_bad_line="skip")
    assert list(reader) == DOCUMENTS
    assert reader.skipped == {reason: 1}


@pytest.mark.parametrize("frame", [bare, listed])
def test_a_cut_file_is_an_error_wherever_it_is_cut(cbor2: Any, tmp_path: Path, frame: Any) -> None:
    content = frame(cbor2, [TURTLES, REEFS])
    whole = {len(cbor2.dumps(TURTLES)), len(content)} if frame is bare else {len(content)}
    path = tmp_path / "cut.cbor"
    for size in range(1, len(content)):
        path.write_bytes(content[:size])
        if size not in whole:
            with pytest.raises(LearnedSparseError, match=r"cut\.cbor"):
                list(read_documents(path, on_bad_line="skip"))


def test_broken_files_are_errors(cbor2: Any, tmp_path: Path) -> None:
    contents = {
        "holds outlines, not paragraphs": listed(cbor2, [PAGE], kind=1),
        "holds kind 9": listed(cbor2, [], kind=9),
        "no list of paragraphs": cbor2.dumps(["CAR", [2], []]) + cbor2.dumps(TURTLES),
        "0x61 where a record begins": bare(cbor2, [TURTLES, "a"]),
        "damaged or cut-off gzip data": gzip.compress(bare(cbor2, [TURTLES] * 1000))[:-9],
    }
    for message, content in contents.items():
        path = tmp_path / ("broken.cbor.gz" if "gzip" in message else "broken.cbor")
        path.write_bytes(content)
        with pytest.raises(LearnedSparseError, match=message):
            list(read_documents(path, on_bad_line="skip"))
    with pytest.raises(LearnedSparseError, match="no such file"):
        read_queries(tmp_path / "absent.outlines")


@pytest.mark.parametrize("frame", ["bare", "listed"])
def test_headings_are_topics(cbor2: Any, tmp_path: Path, frame: str) -> None:
    path = tmp_path / "train.fold0.cbor.outlines"
    path.write_bytes(bare(cbor2, [PAGE]) if frame == "bare" else listed(cbor2, [PAGE], kind=1))
    assert read_queries(path) == QUERIES


def test_outlines_may_be_wrong(cbor2: Any, tmp_path: Path) -> None:
    path = tmp_path / "some.outlines"
    path.write_bytes(bare(cbor2, [PAGE, [0, "name", b"enwiki:name"]]))
    with pytest.raises(LearnedSparseError, match="page 2: not an outline"):
        read_queries(path)
    path.write_bytes(listed(cbor2, [], kind=1))
    with pytest.raises(LearnedSparseError, match="no queries"):
        read_queries(path)


def test_without_cbor2_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.cbor").write_bytes(b"\x83")
    monkeypatch.setitem(sys.modules, "cbor2", None)
    with pytest.raises(LearnedSparseError, match=r"some.cbor: cbor2, .* pip install 'learned-sparse\[data\]'"):
        list(read_documents(tmp_path / "some.cbor"))


def test_the_unpacked_archives_are_a_collection(cbor2: Any, tmp_path: Path) -> None:
    """Fold 0, as TREC CAR's archives have it: paragraphs, outlines and judgements of headings."""
    files = {
        "paragraphcorpus/paragraphcorpus.cbor": bare(cbor2, [TURTLES, REEFS]),
        "train/train.fold0.cbor.outlines": bare(cbor2, [PAGE]),
        "train/train.fold0.cbor.hierarchical.qrels": f"{QUERIES[1].id} 0 77b0 1\n".encode(),
    }
    for name, content in files.items():
        (tmp_path / "trec-car" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "trec-car" / name).write_bytes(content)
    collection = load_collection("trec-car", data=tmp_path)
    assert list(collection.documents()) == DOCUMENTS
    assert collection.queries("train-fold0") == [QUERIES[1]]
    assert collection.qrels("train-fold0") == {QUERIES[1].id: {"77b0": 1}}
    assert [name for name in collection.splits if name.startswith("train")] == [f"train-fold{i}" for i in range(5)]


def test_texts_are_those_of_the_tracks_own_tools(cbor2: Any, tmp_path: Path) -> None:
    tools = pytest.importorskip("trec_car.read_data", reason="trec-car-tools is not installed")
    for frame in (bare, listed):
        content = frame(cbor2, [TURTLES, REEFS])
        (tmp_path / "some.cbor").write_bytes(content)
        theirs = tools.iter_paragraphs(io.BufferedReader(io.BytesIO(content)))
        ours = read_documents(tmp_path / "some.cbor")
        assert [Document(found.para_id, found.get_text()) for found in theirs] == list(ours)
    (page,) = tools.iter_outlines(io.BufferedReader(io.BytesIO(bare(cbor2, [PAGE]))))
    headings = ["/".join([page.page_id, *(part.headingId for part in on_way)]) for on_way in page.flat_headings_list()]
    (tmp_path / "some.outlines").write_bytes(bare(cbor2, [PAGE]))
    assert list(dict.fromkeys(headings)) == [query.id for query in read_queries(tmp_path / "some.outlines")]
