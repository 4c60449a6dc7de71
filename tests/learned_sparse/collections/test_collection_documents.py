"""Documents read from files: every format, every kind of bad line, folders, repeated ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.documents import Document, DocumentReader, read_documents
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import EXPANDED
from tests.learned_sparse.input_files import IDS, write

ANY = st.characters(exclude_characters=EXPANDED, exclude_categories=["Cs"])
TEXTS = st.text(ANY, min_size=1, max_size=40).filter(lambda text: text.strip())

GOOD_JSON = '{"id": "d1", "contents": "one"}'
BAD = [
    ("c.jsonl", "malformed JSON", '{"id": "d2", "contents": "two"', "unexpected end of data"),
    ("c.jsonl", "missing id", '{"id": null, "_id": "", "contents": "two"}', ""),
    ("c.jsonl", "id is not a string", '{"id": true, "contents": "two"}', "of type bool"),
    ("c.jsonl", "unusable id", '{"id": "d 2", "contents": "two"}', "'d 2'"),
    ("c.jsonl", "missing text", '{"id": "d2", "title": "two", "text": null}', "'text', 'contents'"),
    ("c.jsonl", "text is not a string", '{"id": "d2", "contents": ["two"]}', "the text is of type list"),
    ("c.jsonl", "duplicate id", '{"id": "d1", "contents": "again"}', "'d1'"),
    ("c.jsonl", "not UTF-8", b'{"id": "d2", "contents": "caf\xe9"}', "byte 0xe9 at column 30"),
    ("c.tsv", "missing id", "\ttwo", ""),
]


def texts(reader: DocumentReader) -> dict[str, str]:
    return {document.id: document.text for document in reader}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"_id": "d1", "title": "A title.", "text": "A text."}', Document("d1", "A title. A text.")),
        ('{"_id": "d1", "title": "", "text": "A text."}', Document("d1", "A text.")),
        ('{"_id": "d1", "title": null, "text": "A text.", "metadata": {}}', Document("d1", "A text.")),
        ('{"_id": "d1", "title": "A title.", "text": ""}', Document("d1", "A title.")),
        ('{"id": 7, "contents": "Line.\\nLine."}', Document("7", "Line.\nLine.")),
        ('{"docid": "msmarco_passage_00_0", "segment": "s", "title": "t"}', Document("msmarco_passage_00_0", "t s")),
        # Keys with content count.
        ('{"_id": "", "id": 0, "text": "", "contents": "A text."}', Document("0", "A text.")),
        ('{"id": "d1", "text": "t", "expanded": [], "predicted_queries": ["a", "b"]}', Document("d1", "t", "a b")),
        ("d1\ta passage", Document("d1", "a passage")),
        ("d1\thttp://x.org\tTitle\tbody", Document("d1", "http://x.org Title body")),
        ("d1\t\tTitle\tbody", Document("d1", "Title body")),
    ],
)
def test_every_layout_of_a_document(tmp_path: Path, line: str, expected: Document) -> None:
    name = "corpus.jsonl" if line.startswith("{") else "collection.tsv"
    assert list(read_documents(write(tmp_path / name, line, ""))) == [expected]


JSON_LINES = ("\ufeff" + GOOD_JSON + "\r", "", '{"id": "d2", "contents": "two"}')
COLUMNS = ("d1\tone", "", "d2\ttwo")


@pytest.mark.parametrize(
    ("name", "lines"),
    [("c.jsonl", JSON_LINES), ("c.json.gz", JSON_LINES), ("c.txt", COLUMNS), ("c.tsv.gz", COLUMNS)],
)
def test_the_extension_decides_the_format(tmp_path: Path, name: str, lines: tuple[str, ...]) -> None:
    reader = read_documents(write(tmp_path / name, *lines))
    assert texts(reader) == {"d1": "one", "d2": "two"}
    assert (reader.read, reader.skipped, reader.files) == (2, {}, (tmp_path / name,))


@pytest.mark.parametrize(("name", "reason", "line", "detail"), BAD)
def test_a_bad_line_is_an_error_or_skipped_and_counted(
    tmp_path: Path, name: str, reason: str, line: str | bytes, detail: str, caplog: pytest.LogCaptureFixture
) -> None:
    good_line = GOOD_JSON if name == "c.jsonl" else "d1\tone"
    path = write(tmp_path / name, good_line, line, line, good_line.replace("d1", "d9"))
    documents = iter(read_documents(path))
    assert next(documents) == Document("d1", "one")
    with pytest.raises(LearnedSparseError) as error:
        next(documents)
    assert str(error.value).startswith(f"{path}:2: {reason}")
    assert detail in str(error.value)
    assert str(error.value).endswith("; skip such lines with --on-bad-line skip")
    reader = read_documents(path, on_bad_line="skip")
    assert list(texts(reader)) == ["d1", "d9"]
    assert (reader.read, reader.skipped) == (2, {reason: 2})
    assert caplog.messages[0].startswith(f"{path}:2: {reason}")


def test_a_document_without_text_is_kept_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "c.jsonl"
    lines = [GOOD_JSON, '{"id": "d2", "contents": ""}', '{"id": "d3", "title": "", "text": " \\n"}']
    reader = read_documents(write(path, *lines))
    assert [document.id for document in reader] == ["d1", "d2", "d3"]
    assert (reader.read, reader.empty, reader.skipped) == (3, 2, {})
    assert caplog.messages[0].startswith(f"{path}:2: ")
    assert caplog.messages[1] == f"{path}: 3 documents read, 2 without text"


def test_files_of_a_folder_are_read_in_order_and_ids_are_unique(tmp_path: Path) -> None:
    write(tmp_path / "b" / "1.tsv.gz", "d3\tthree")
    write(tmp_path / "b.jsonl", GOOD_JSON)
    write(tmp_path / "a.tsv", "d2\ttwo")
    write(tmp_path / ".cache" / "x.bin", "hidden")
    reader = read_documents(tmp_path)
    assert list(texts(reader)) == ["d2", "d3", "d1"]
    assert [file.name for file in reader.files] == ["a.tsv", "1.tsv.gz", "b.jsonl"]
    write(tmp_path / "c.tsv", "d1\tagain")
    with pytest.raises(LearnedSparseError, match=r"c\.tsv:1: duplicate id \('d1'\)"):
        list(read_documents(tmp_path))


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (["part/segments_000.jsonl", "segments_of_texts.jsonl"], None),
        (["segments_2"], "a Lucene index"),
        (["shard-0/segments_1f"], "a Lucene index"),
        (["queries.tsv", "manifest.json"], "encoded queries"),
        (["queries.tsv"], None),
        (["manifest.json", "a.jsonl"], None),
    ],
)
def test_only_folders_of_other_things_are_refused(files: list[str], kind: str | None, tmp_path: Path) -> None:
    for number, file in enumerate(files):
        write(tmp_path / file, f"d{number}\tone" if file.endswith("tsv") else GOOD_JSON.replace("d1", f"d{number}"))
    if kind:
        with pytest.raises(LearnedSparseError, match=f"{kind}, not texts; name a file or folder of documents"):
            read_documents(tmp_path)
    else:
        assert len(list(read_documents(tmp_path))) == len(files)


@given(documents=st.dictionaries(IDS, TEXTS, min_size=1, max_size=8))
def test_any_text_survives_json_lines(documents: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = [json.dumps({"id": name, "contents": text}) for name, text in documents.items()]
    written = [json.dumps({"_id": name, "text": text}, ensure_ascii=False) for name, text in documents.items()]
    folder = tmp_path_factory.mktemp("json")
    assert texts(read_documents(write(folder / "a.jsonl", *lines))) == documents
    assert texts(read_documents(write(folder / "b.jsonl.gz", *written))) == documents
