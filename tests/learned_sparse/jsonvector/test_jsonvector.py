"""Encoded documents and queries and manifests: reading is the inverse of writing; bad input."""

from __future__ import annotations

import dataclasses
import gzip
import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learned_sparse.collections.topics import Query
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import sha256, write_json
from learned_sparse.core.lines import EMPTY_TERM, BadLineError, check_id, unfit_reason
from learned_sparse.core.quantize import MAX_IMPACT, Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.jsonvector.__main__ import main as check
from learned_sparse.jsonvector.manifest import Counts, Manifest, Part
from learned_sparse.jsonvector.queries import check_queries, read_topics, write_queries
from learned_sparse.jsonvector.reader import load_vectors, read_vectors
from learned_sparse.jsonvector.writer import LuceneTerms
from tests.learned_sparse.encoded_folder import save_queries, write_folder, write_part

characters = st.characters(exclude_categories=["Cs"])


def is_id(text: str) -> bool:
    try:
        return bool(check_id(text))
    except BadLineError:
        return False


ids = st.text(characters, min_size=1).filter(is_id)
terms = st.text(characters, min_size=1, max_size=12).filter(lambda term: unfit_reason(term) is None)
vectors = st.dictionaries(terms, st.integers(1, 10**6), max_size=8)
VECTORS = {"d3": {"a": 2}, "d1": {"a": 1, "b": 2}, "d2": {}, "d10": {"c": 300}, "d4": {"b": 1}}


def batch(*rows: dict[str, int]) -> SparseBatch:
    return SparseBatch.from_dicts(rows, dtype=np.int64)


def loaded(folder: Path) -> list[tuple[str, dict[str, int]]]:
    """Like ``list(read_vectors(folder))``, by ``load_vectors``."""
    names, impacts = load_vectors([folder])
    return [(name, impacts.row(row)) for row, name in enumerate(names)]


@settings(max_examples=40)
@given(st.dictionaries(ids, st.tuples(st.text(characters), vectors), max_size=6), st.booleans())
def test_reading_is_the_inverse_of_writing(documents: dict[str, tuple[str, dict[str, int]]], compress: bool) -> None:
    rows = [vector for _, vector in documents.values()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("part.jsonl.gz" if compress else "part.jsonl")
        texts = [text for text, _ in documents.values()]
        write_part(path, list(documents), texts, batch(*rows))
        assert dict(read_vectors(path)) == dict(zip(documents, rows, strict=True))
        assert loaded(path) == list(zip(documents, rows, strict=True))


def test_bytes(tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    write_part(path, ["d1", "d2"], ["Hives.\n", ""], batch({"hives": 3, "é": 1}, {}))
    assert path.read_text(encoding="utf-8").splitlines() == [
        '{"id":"d1","contents":"Hives.\\n","vector":{"hives":3,"é":1}}',
        '{"id":"d2","contents":"","vector":{"[empty-vector]":1}}',
    ]


@pytest.mark.parametrize(
    ("name", "text", "vector", "message"),
    [
        ("d 1", "", {"a": 1}, "the id 'd 1' is empty or holds white space"),
        ("d1", "", {"a": 0}, "'d1': term 'a' has the impact 0, not 1 to"),
        ("d1", "", {"a": MAX_IMPACT + 1}, "term 'a' has the impact 2147483648"),
        ("d1", "", {"a": 1, "new york": 2}, "'d1': Lucene cannot hold the term 'new york'"),
        ("d1", "", {EMPTY_TERM: 2}, "reserved"),
        ("d1", "\ud800", {"a": 1}, "document 'd1': not writable as UTF-8"),
        ("d1", "", {"a": 0.5}, "impacts are integers, got float64"),
    ],
)
def test_bad_rows_are_not_written(tmp_path: Path, name: str, text: str, vector: dict[str, int], message: str) -> None:
    rows = SparseBatch.from_dicts([{"b": 1}, vector], np.float64 if 0.5 in vector.values() else np.int64)
    with pytest.raises(LearnedSparseError, match=message):
        write_part(tmp_path / "part.jsonl", ["ok", name], ["", text], rows)
    assert list(tmp_path.iterdir()) == []


GOOD = '{"id": "d1", "vector": {"hives": 3}}'
BAD_LINES = [
    ('{"id": "x", "vector": {}}', "the vector is empty and Anserini would drop the document"),
    ('{"vector": {"a": 1}}', 'no "id"'),
    ('{"id": " a", "vector": {"a": 1}}', "holds white space"),
    ('{"id": "x", "vector": {"a": 0}}', "'a' has the impact 0"),
    ('{"id": "x", "vector": {"b": 1, "a": 2.9}}', "'a' has the impact 2.9"),
    ('{"id": "x", "vector": {"a": "3"}}', "'a' has the impact '3'"),
    ('{"id": "x", "vector": {"new york": 2}}', "cannot hold the term 'new york'"),
    (f'{{"id": "x", "vector": {{"{EMPTY_TERM}": 2}}}}', "reserved"),
    ('{"id": "x", "vector": {"a": NaN}}', "not JSON"),
    ('{"id": "d1", "vector": {"a": 1}}', "the id 'd1'"),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES)
def test_every_reader_names_file_and_line_of_a_bad_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    path = tmp_path / "part.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n" + GOOD.replace("d1", "d9") + "\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError) as error:
        list(read_vectors(tmp_path))
    assert str(error.value).startswith(f"{path}:3: ")
    assert message in str(error.value)
    with pytest.raises(LearnedSparseError) as array_error:
        load_vectors([tmp_path])
    assert str(array_error.value) == str(error.value)
    assert check(["check", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert f"{path}:3: " in output
    assert f"{tmp_path}: 2 documents (0 with an empty vector), 1 problems" in output


def test_broken_gzip(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(f"{GOOD}\n".encode())
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(GOOD.replace("d1", "d2").encode() * 50)[:-9])
    for reader in (lambda: list(read_vectors(tmp_path)), lambda: load_vectors([tmp_path])):
        with pytest.raises(LearnedSparseError, match=r"b.jsonl.gz:\d: "):
            reader()


def test_reading_keeps_only_hashes_of_ids(tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    path.write_text("".join(f'{{"id": "{number:0999}", "vector": {{"a": 1}}}}\n' for number in range(3000)))
    tracemalloc.start()
    assert sum(1 for _ in read_vectors(path)) == 3000
    assert tracemalloc.get_traced_memory()[1] < 10**6  # bytes; the ids are three times as much
    tracemalloc.stop()


def test_files_of_other_tools(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    lines = [
        '{"id": 7, "content": "true", "vector": {"##ing": 2, "日本": 1}}',
        "",
        '{"vector": {"a": 536870912}, "id": "x", "more": [true, null]}',
        f'{{"id": "y", "vector": {{"{EMPTY_TERM}": 1}}}}',
    ]
    (tmp_path / "b" / "2.json").write_text("\n".join(lines))
    (tmp_path / "a.jsonl").write_text(GOOD)  # no line end at the end
    (tmp_path / "manifest.txt").write_text("not a vector file")
    vectors = [("d1", {"hives": 3}), ("7", {"##ing": 2, "日本": 1}), ("x", {"a": 2**29}), ("y", {})]
    assert loaded(tmp_path) == list(read_vectors(tmp_path)) == vectors


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"complete": False}, "not complete; run learned_sparse.encode with --resume"),
        ({"kind": "queries"}, "encoded queries, not documents"),
        ({"scoring": "bm25"}, "scored by BM25"),
    ],
)
def test_load_vectors_refuses_what_cannot_be_searched(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        load_vectors([write_folder(tmp_path, VECTORS, **changes)])


def test_files_are_those_of_the_manifest(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, VECTORS, parts=2)
    assert loaded(folder) == list(read_vectors(folder)) == list(VECTORS.items())
    part = folder / "vectors" / "part-00001.jsonl"
    lines = part.read_text().splitlines(keepends=True)
    part.write_text("".join(lines[:-1]))
    with pytest.raises(LearnedSparseError, match=r"part-00001.jsonl: not the bytes the manifest records"):
        load_vectors([folder])
    part.unlink()
    for read in (lambda: load_vectors([folder]), lambda: read_vectors(folder)):
        with pytest.raises(LearnedSparseError, match=r"part-00001.jsonl: missing"):
            read()


def test_the_checker_reports_keys_that_are_given_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text(f'{GOOD}\n{{"id": "d2", "vector": {{"a": 1, "b": 2, "a": 3}}}}\n')
    assert check(["check", str(tmp_path)]) == 1
    assert "a.jsonl:2: the key 'a' is given twice" in capsys.readouterr().out


@settings(max_examples=30)
@given(st.dictionaries(ids, st.dictionaries(terms, st.integers(1, 300), max_size=5), min_size=1, max_size=5))
def test_reading_topics_is_the_inverse_of_writing(rows: dict[str, dict[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        save_queries(Path(folder), rows, texts=["x"] * len(rows))
        assert read_topics(Path(folder) / "queries.tsv") == rows


def test_bytes_of_both_files(tmp_path: Path) -> None:
    rows = {"q1": {"hives": 2, "é": 1}, "q2": {}, "q3": {"hives": 2, "é": 1}}
    save_queries(tmp_path, rows, [" ¿hives? ", "?", "¿hives?"])
    assert (tmp_path / "queries.tsv").read_text("utf-8") == "q1\thives hives é\nq2\t[no-terms]\nq3\thives hives é\n"
    # read like pyserini.encode.CachedDataQueryEncoder, independent of the locale
    lines = (tmp_path / "queries.jsonl").read_text(encoding="ascii").splitlines()
    vectors = {info["contents"].strip(): info["vector"] for info in map(json.loads, lines)}
    assert vectors == {"¿hives?": {"hives": 2, "é": 1}, "?": {}}
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("query", "vector", "message"),
    [
        (Query("q 1", "x"), {"a": 1}, "id 'q 1'"),
        (Query("q1", "a\tb"), {"a": 1}, "query 'q1': a topics file cannot hold the tab or line end"),
        (Query("q0", "x"), {"a": 1}, "query 'q0' occurs twice"),
        (Query("q1", "x"), {"a": 2**31 - 1, "b": 1}, "2,147,483,648 words for one query, at most 4,194,304"),
    ],
)
def test_queries_that_no_topics_file_can_hold(
    tmp_path: Path, query: Query, vector: dict[str, int], message: str
) -> None:
    vectors = batch({"a": 1}, vector)
    with pytest.raises(LearnedSparseError, match=message):
        write_queries(tmp_path, [Query("q0", "x"), query], vectors, LuceneTerms(vectors.terms))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("q1\ta\tb\n", "1: expected an id"),
        ("q1\ta [empty-vector]\n", "1: term '.empty-vector.': this spelling is reserved"),
    ],
)
def test_bad_topics(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "queries.tsv").write_text(content)
    with pytest.raises(LearnedSparseError, match=f"queries.tsv:{message}"):
        read_topics(tmp_path / "queries.tsv")


def test_topics_compressed_or_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "queries.tsv.gz").write_bytes(gzip.compress(b"q1\ta a\r\n"))
    assert read_topics(tmp_path / "queries.tsv.gz") == {"q1": {"a": 2}}
    (tmp_path / "queries.tsv").write_bytes(b"q1\t\xff\n")
    with pytest.raises(LearnedSparseError, match=r"queries.tsv:1: not UTF-8"):
        read_topics(tmp_path / "queries.tsv")


def test_queries_belong_to_their_manifest_and_to_the_documents(tmp_path: Path) -> None:
    model = {"architecture": "words", "tokenizer_sha256": "1", "settings": {"query_k": 5}}
    folder = write_folder(tmp_path / "vectors", {"d1": {"a": 1}}, query_encoder={**model, "settings": {}})
    vectors = Manifest.load(folder)
    save_queries(tmp_path / "queries", {"q1": {"a": 1}})
    check_queries(tmp_path / "queries", vectors)  # no manifest: nothing is known
    part = Part(file="queries.tsv", documents=1, sha256=sha256(tmp_path / "queries" / "queries.tsv"))
    manifest = dataclasses.replace(vectors, kind="queries", encoder=model, parts=(part,))
    write_json(tmp_path / "queries/manifest.json", dataclasses.asdict(manifest), record=True)
    check_queries(tmp_path / "queries" / "queries.tsv", vectors)
    assert read_topics(tmp_path / "queries") == {"q1": {"a": 1}}
    (tmp_path / "queries" / "queries.tsv").write_text("q1\tb\n")
    with pytest.raises(LearnedSparseError, match=r"queries.tsv: not the bytes the manifest records; encode"):
        read_topics(tmp_path / "queries")


THREE = {f"d{number}": {"a": 1} for number in range(3)}


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Manifest of ``tmp_path``, with three files; impacts of queries are at most 255."""
    write_folder(tmp_path, THREE, parts=3, input=({"file": "corpus.jsonl"},), query_quantizer=Quantizer(12.5, 8))
    return Manifest.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format 99, this version knows 1"),
        ({"kind": "indexes"}, "'indexes' is not one of 'documents', 'queries'"),
        ({"modell": "x"}, "unknown key 'modell'; did you mean 'model'"),
        ({"quantizer": {"scale": -1.0, "bits": None}}, "quantisation factor -1.0"),
        ({"parts": [{"file": "x", "documents": "two", "sha256": ""}]}, r"parts\[0\]: documents: expected int"),
        (None, "expected an object, got list"),
    ],
)
def test_invalid_manifests(change: dict[str, object] | None, message: str, manifest: Manifest, tmp_path: Path) -> None:
    write_json(tmp_path / "manifest.json", [] if change is None else {**dataclasses.asdict(manifest), **change})
    with pytest.raises(LearnedSparseError, match=message):
        Manifest.load(tmp_path)


def test_problems(manifest: Manifest, tmp_path: Path) -> None:
    assert list(manifest.problems(tmp_path)) == []
    (tmp_path / "vectors" / "part-00001.jsonl").unlink()
    (tmp_path / "vectors" / "part-00002.jsonl").write_text("{ }")
    (tmp_path / "vectors" / "more.jsonl").write_text("{}")
    problems = [problem.replace(str(tmp_path), "") for problem in manifest.problems(tmp_path)]
    assert problems == [
        "/vectors/part-00001.jsonl: missing",
        "/vectors/part-00002.jsonl: not the bytes the manifest records",
        "/vectors/more.jsonl: not in the manifest",
    ]
    assert "not complete" in next(iter(dataclasses.replace(manifest, complete=False).problems(tmp_path)))


def test_warning_about_scores_beyond_exact_floats(manifest: Manifest, tmp_path: Path) -> None:
    binary = dataclasses.replace(manifest, query_quantizer=Quantizer(1.0, 1))  # impacts of queries are 1
    assert binary.finish(tmp_path, (), Counts(largest_sum=2**24)).warnings == ()
    assert "16,777,217" in binary.finish(tmp_path, (), Counts(largest_sum=2**24 + 1)).warnings[0]
    assert "4,278,190,080" in manifest.finish(tmp_path, (), Counts(largest_sum=2**24)).warnings[0]  # 255 times as much
