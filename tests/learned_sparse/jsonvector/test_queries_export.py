"""Encoded queries in the two formats that stock Pyserini reads."""

from __future__ import annotations

import dataclasses
import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import sha256
from learned_sparse.core.records import Query, SparseBatch
from learned_sparse.core.terms import LuceneTerms, unfit_id_reason, unfit_reason
from learned_sparse.jsonvector.manifest import Manifest, Part
from learned_sparse.jsonvector.queries import check_queries, read_topics, write_queries
from tests.learned_sparse.encoded_folder import write_folder

characters = st.characters(exclude_categories=["Cs"])
ids = st.text(characters, min_size=1).filter(lambda text: unfit_id_reason(text) is None)
terms = st.text(characters, min_size=1, max_size=12).filter(lambda term: unfit_reason(term) is None)


def write(folder: Path, rows: dict[str, dict[str, int]], texts: list[str] | None = None) -> list[str]:
    batch = SparseBatch.from_dicts(rows.values(), dtype=np.int32)
    queries = [Query(name, text) for name, text in zip(rows, texts or rows, strict=True)]
    return write_queries(folder, queries, batch, LuceneTerms(batch.terms))


@settings(max_examples=30)
@given(st.dictionaries(ids, st.dictionaries(terms, st.integers(1, 300), max_size=5), min_size=1, max_size=5))
def test_reading_topics_is_the_inverse_of_writing(rows: dict[str, dict[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows, texts=["x"] * len(rows))
        assert read_topics(Path(folder) / "queries.tsv") == rows


def test_bytes_of_both_files(tmp_path: Path) -> None:
    rows = {"q1": {"hives": 2, "é": 1}, "q2": {}, "q3": {"hives": 2, "é": 1}}
    write(tmp_path, rows, [" ¿hives? ", "?", "¿hives?"])
    assert (tmp_path / "queries.tsv").read_text(
        encoding="utf-8"
    ) == "q1\thives hives é\nq2\t[no-terms]\nq3\thives hives é\n"
    # read like pyserini.encode.CachedDataQueryEncoder, independent of the locale
    lines = (tmp_path / "queries.jsonl").read_text(encoding="ascii").splitlines()
    vectors = {info["contents"].strip(): info["vector"] for info in map(json.loads, lines)}
    assert vectors == {"¿hives?": {"hives": 2, "é": 1}, "?": {}}
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Query("q 1", "x"), "id 'q 1'"),
        (Query("q1", "a\tb"), "query 'q1': a topics file cannot hold the tab or line end"),
        (Query("q0", "x"), "query 'q0' occurs twice"),
    ],
)
def test_queries_that_no_topics_file_can_hold(tmp_path: Path, query: Query, message: str) -> None:
    batch = SparseBatch.from_dicts([{"a": 1}, {"a": 1}], dtype=np.int32)
    with pytest.raises(LearnedSparseError, match=message):
        write_queries(tmp_path, [Query("q0", "x"), query], batch, LuceneTerms(batch.terms))
    assert list(tmp_path.iterdir()) == []


def test_large_impacts_are_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=r"2,147,483,648 words for one query, at most 4,194,304"):
        write(tmp_path, {"q1": {"a": 2**31 - 1, "b": 1}})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("q1 a b\n", "1: expected an id"),
        ("q1\ta\nq1\tb\n", "2: the query id 'q1' occurs twice"),
        ("q1\ta\tb\n", "1: expected an id"),
        ("q1\ta [empty-vector]\n", "1: term '.empty-vector.': this spelling is reserved"),
    ],
)
def test_bad_topics(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "queries.tsv").write_text(content)
    with pytest.raises(LearnedSparseError, match=f"queries.tsv:{message}"):
        read_topics(tmp_path / "queries.tsv")


def test_topics_compressed_missing_or_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "queries.tsv.gz").write_bytes(gzip.compress(b"q1\ta a\r\n"))
    assert read_topics(tmp_path / "queries.tsv.gz") == {"q1": {"a": 2}}
    with pytest.raises(LearnedSparseError, match="no such file"):
        read_topics(tmp_path / "none.tsv")
    (tmp_path / "queries.tsv").write_bytes(b"q1\t\xff\n")
    with pytest.raises(LearnedSparseError, match=r"queries.tsv:1: not UTF-8"):
        read_topics(tmp_path / "queries.tsv")


def test_queries_belong_to_their_manifest_and_to_the_documents(tmp_path: Path) -> None:
    model = {"architecture": "words", "tokenizer_sha256": "1", "settings": {"query_k": 5}}
    folder = write_folder(tmp_path / "vectors", {"d1": {"a": 1}}, query_encoder={**model, "settings": {}})
    vectors = Manifest.load(folder)
    write(tmp_path / "queries", {"q1": {"a": 1}})
    check_queries(tmp_path / "queries", vectors)  # no manifest: nothing is known
    part = Part(file="queries.tsv", documents=1, sha256=sha256(tmp_path / "queries" / "queries.tsv"))
    manifest = dataclasses.replace(vectors, kind="queries", encoder=model, parts=(part,))
    manifest.save(tmp_path / "queries")
    check_queries(tmp_path / "queries" / "queries.tsv", vectors)
    assert read_topics(tmp_path / "queries") == {"q1": {"a": 1}}
    dataclasses.replace(manifest, encoder={**model, "tokenizer_sha256": "2"}).save(tmp_path / "queries")
    with pytest.raises(LearnedSparseError, match=r"not encoded by the model of the documents .tokenizer_sha256"):
        check_queries(tmp_path / "queries", vectors)
    (tmp_path / "queries" / "queries.tsv").write_text("q1\tb\n")
    with pytest.raises(LearnedSparseError, match=r"queries.tsv: not the bytes the manifest records; encode"):
        read_topics(tmp_path / "queries")
