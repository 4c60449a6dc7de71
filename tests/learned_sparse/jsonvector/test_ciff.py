"""CIFF files written by the protocol buffers library are read, whatever their documents; damaged ones are refused."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learned_sparse.core import LearnedSparseError
from learned_sparse.jsonvector import read_ciff, read_vectors
from learned_sparse.jsonvector.__main__ import main

INT32, INT64, DOUBLE, STRING, MESSAGE = 5, 3, 1, 9, 11
FIELDS = {
    "Header": [
        ("version", INT32), ("num_postings_lists", INT32), ("num_docs", INT32), ("total_postings_lists", INT32),
        ("total_docs", INT32), ("total_terms_in_collection", INT64), ("average_doclength", DOUBLE),
        ("description", STRING),
    ],
    "Posting": [("docid", INT32), ("tf", INT32)],
    "PostingsList": [("term", STRING), ("df", INT64), ("cf", INT64), ("postings", MESSAGE)],
    "DocRecord": [("docid", INT32), ("collection_docid", STRING), ("doclength", INT32)],
}  # fmt: skip
"""CommonIndexFileFormat.proto of osirrc/ciff."""


@pytest.fixture(scope="module")
def messages() -> dict[str, Any]:
    descriptor_pb2: Any = pytest.importorskip("google.protobuf.descriptor_pb2")
    message_factory: Any = pytest.importorskip("google.protobuf.message_factory")
    file = descriptor_pb2.FileDescriptorProto(name="ciff.proto", package="ciff", syntax="proto3")
    for name, fields in FIELDS.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, start=1):
            added = message.field.add(name=field, number=number, type=kind, label=3 if kind == MESSAGE else 1)
            if kind == MESSAGE:
                added.type_name = ".ciff.Posting"
    classes: dict[str, Any] = message_factory.GetMessages([file])
    return {name.removeprefix("ciff."): kind for name, kind in classes.items()}


def ciff(messages: dict[str, Any], vectors: dict[str, dict[str, int]]) -> bytes:
    """``vectors`` as Anserini's exporter writes them."""
    from google.protobuf.internal.encoder import _VarintBytes

    terms = sorted({term for vector in vectors.values() for term in vector})
    parts = [messages["Header"](version=1, num_postings_lists=len(terms), num_docs=len(vectors), average_doclength=2.5)]
    for term in terms:
        rows = [(number, vector[term]) for number, vector in enumerate(vectors.values()) if term in vector]
        gaps = [row - before for (row, _), before in zip(rows, [0, *(row for row, _ in rows)], strict=False)]
        postings = [messages["Posting"](docid=gap, tf=impact) for gap, (_, impact) in zip(gaps, rows, strict=True)]
        parts.append(messages["PostingsList"](term=term, df=len(rows), cf=sum(tf for _, tf in rows), postings=postings))
    parts += [messages["DocRecord"](docid=n, collection_docid=name, doclength=3) for n, name in enumerate(vectors)]
    return b"".join(_VarintBytes(len(data)) + data for data in (part.SerializeToString() for part in parts))


TERMS = st.sampled_from(["hives", "##ing", "日本", "a" * 200, "2024"])
VECTORS = st.dictionaries(
    st.sampled_from([f"d{n}" for n in range(200)]), st.dictionaries(TERMS, st.integers(1, 2**31 - 1))
)


@settings(max_examples=30)
@given(vectors=VECTORS)
def test_vectors_are_read_as_they_were_written(messages: dict[str, Any], vectors: dict[str, dict[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.ciff"
        path.write_bytes(ciff(messages, vectors))
        ids, impacts = read_ciff(path)
    assert {name: impacts.row(row) for row, name in enumerate(ids)} == vectors


def test_a_file_becomes_vectors(messages: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors = {f"d{n}": {"hives": n + 1, "wing": 300} for n in range(300)} | {"empty": {}}
    (tmp_path / "index.ciff.gz").write_bytes(gzip.compress(ciff(messages, vectors)))
    words = ["ciff", str(tmp_path / "index.ciff.gz"), "--output", str(tmp_path / "vectors")]
    assert main(words) == 0
    assert "301 documents, 600 postings" in capsys.readouterr().out
    assert dict(read_vectors(tmp_path / "vectors")) == vectors
    with pytest.raises(LearnedSparseError, match="exists and holds files"):
        main(words)


def test_damaged_files(messages: dict[str, Any], tmp_path: Path) -> None:
    whole = ciff(messages, {"d1": {"hives": 3}, "d2": {"hives": 1, "wing": 2}})
    path = tmp_path / "index.ciff"
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        with pytest.raises(
            LearnedSparseError, match=r"index.ciff: no readable CIFF file \(.*\); copy or export it again"
        ):
            read_ciff(path)
    path.write_bytes(whole + b"\x00")
    with pytest.raises(LearnedSparseError, match="bytes after the last document"):
        read_ciff(path)
    path.write_bytes(whole.replace(b"d2", b"d1"))
    with pytest.raises(LearnedSparseError, match="documents repeat an id"):
        read_ciff(path)
