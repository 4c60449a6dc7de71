"""Parts of a collection that are read by themselves are those of the whole."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from learned_sparse.collections import (
    DocumentReader,
    Expansions,
    input_parts,
    read_documents,
    read_part,
    write_seek_index,
)
from learned_sparse.core import Document, LearnedSparseError

BAD = {3: b"no JSON\n", 17: b"\n", 18: b'{"id": "d4", "text": "a repetition"}\n', 40: b'{"text": "no id"}\n'}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """100 lines in three files of all forms, some of them bad, with line ends and marks of other systems."""
    lines = [b'{"id": "d%d", "text": "text\xc3\xa9 %d"}\n' % (n, n) for n in range(60)]
    lines = [BAD.get(number, line) for number, line in enumerate(lines)]
    lines[30] = b"\xef\xbb\xbf" + lines[30].replace(b"\n", b"\r\n")
    path = tmp_path / "corpus"
    path.mkdir()
    (path / "a.jsonl").write_bytes(b"".join(lines[:25]))
    with gzip.open(path / "b.jsonl.gz", "wb") as file:
        file.write(b"".join(lines[25:50]))
    with gzip.open(path / "b.jsonl.gz", "ab") as file:  # a second member
        file.write(b"".join(lines[50:]))
    (path / "c.tsv").write_bytes(b"".join(b"t%d\ta text\n" % n for n in range(40)).rstrip(b"\n"))
    return path


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_every_part_by_itself(folder: Path, tmp_path: Path, size: int) -> None:
    pytest.importorskip("indexed_gzip", reason="indexed_gzip is not installed (the extra ray)")
    documents = list(read_documents(folder, on_bad_line="skip"))
    reader = read_documents(folder, on_bad_line="skip")
    table = input_parts(reader, size)
    write_seek_index(folder / "b.jsonl.gz", tmp_path / "seek")
    parts = [read_part(reader.files, part, None, {1: tmp_path / "seek"}) for part in reversed(table.parts)][::-1]
    assert parts == [documents[start : start + size] for start in range(0, len(documents), size)]
    assert table.documents == len(documents) == 96
    assert table.skipped == {"malformed JSON": 1, "duplicate id": 1, "missing id": 1}


def test_predicted_queries_are_joined(folder: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries.tsv"
    queries.write_text("d7\twhy seven\nt3\twhy three\n", encoding="utf-8")
    reader = read_documents(folder / "a.jsonl", on_bad_line="skip", expanded=queries)
    table = input_parts(reader, 5)
    again = read_documents(folder / "a.jsonl")
    parts = [read_part(again.files, part, Expansions(queries)) for part in table.parts]
    assert [one.expanded for part in parts for one in part if one.id == "d7"] == ["why seven"]


def test_a_changed_input_is_noticed(folder: Path) -> None:
    reader = read_documents(folder / "c.tsv")
    table = input_parts(reader, 30)
    assert table.fits(read_documents(folder / "c.tsv"), 30)
    assert not table.fits(read_documents(folder / "c.tsv"), 31)
    (folder / "c.tsv").write_bytes(b"only\tone line\n")
    assert not table.fits(read_documents(folder / "c.tsv"), 30)
    with pytest.raises(LearnedSparseError, match=r"c.tsv: ends before .* the input has changed"):
        read_part(reader.files, table.parts[1])


def test_documents_that_are_no_lines_of_files() -> None:
    with pytest.raises(LearnedSparseError, match=r"not lines of files.*use --num-shards in place of --engine ray"):
        input_parts(DocumentReader.of([Document("d1", "text")]), 10)
