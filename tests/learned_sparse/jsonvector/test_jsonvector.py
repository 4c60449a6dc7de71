"""Files for Anserini: what is written is read, and what Anserini would mangle is neither written nor read."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import sha256
from learned_sparse.core.quantize import MAX_IMPACT
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.terms import EMPTY_TERM, unfit_reason
from learned_sparse.jsonvector import read_vectors, vector_files, write_part
from learned_sparse.jsonvector.__main__ import main as check

characters = st.characters(exclude_categories=["Cs"])
ids = st.text(characters, min_size=1).filter(lambda text: text.split() == [text])
terms = st.text(characters, min_size=1, max_size=12).filter(lambda term: unfit_reason(term) is None)
vectors = st.dictionaries(terms, st.integers(1, 10**6), max_size=8)


def batch(*rows: dict[str, int]) -> SparseBatch:
    return SparseBatch.from_dicts(rows, dtype=np.int64)


@given(st.dictionaries(ids, st.tuples(st.text(characters), vectors), max_size=6), st.booleans())
def test_what_is_written_is_read(documents: dict[str, tuple[str, dict[str, int]]], compress: bool) -> None:
    rows = [vector for _, vector in documents.values()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("part.jsonl.gz" if compress else "part.jsonl")
        texts = [text for text, _ in documents.values()]
        written = write_part(path, list(documents), texts, batch(*rows), compress=compress)
        assert dict(read_vectors(path)) == dict(zip(documents, rows, strict=True))
        assert written.sha256 == sha256(path)
        assert (written.documents, written.empty_vectors) == (len(rows), sum(not row for row in rows))
        assert written.postings == sum(map(len, rows))


def test_the_very_bytes(tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    write_part(path, ["d1", "d2"], ["Hives.\n", ""], batch({"hives": 3, "é": 1}, {}))
    assert path.read_text(encoding="utf-8").splitlines() == [
        '{"id":"d1","contents":"Hives.\\n","vector":{"hives":3,"é":1}}',
        '{"id":"d2","contents":"","vector":{"[empty-vector]":1}}',
    ]


def test_gzip_has_no_time_and_no_name(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "b.jsonl.gz"):
        write_part(tmp_path / name, ["d1"], ["x"], batch({"hives": 3}), compress=True)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()
    assert (tmp_path / "a.jsonl.gz").read_bytes()[4:8] == b"\0\0\0\0"


@pytest.mark.parametrize(
    ("name", "vector", "message"),
    [
        ("d 1", {"a": 1}, "id 'd 1': a TREC run cannot hold white space"),
        ("", {"a": 1}, "id '': a TREC run"),
        ("d1", {"a": 0}, "'d1': term 'a' has the impact 0, not 1 to"),
        ("d1", {"a": -3}, "term 'a' has the impact -3"),
        ("d1", {"a": MAX_IMPACT + 1}, "term 'a' has the impact 2147483648"),
        ("d1", {"a": 1, "new york": 2}, "'d1': Lucene cannot hold the term 'new york'"),
        ("d1", {EMPTY_TERM: 2}, "reserved"),
        ("d1", {"a": 1, "abc": 2**29}, "'d1': Anserini would write this vector as 2,147,483,650 characters"),
    ],
)
def test_nothing_is_written(tmp_path: Path, name: str, vector: dict[str, int], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        write_part(tmp_path / "part.jsonl", ["ok", name], ["", ""], batch({"b": 1}, vector))
    assert list(tmp_path.iterdir()) == []


def test_floats_and_broken_texts_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="impacts are integers, got float32"):
        write_part(tmp_path / "part.jsonl", ["d1"], [""], SparseBatch.from_dicts([{"a": 0.5}]))
    with pytest.raises(LearnedSparseError, match="document 'd1': not writable as UTF-8"):
        write_part(tmp_path / "part.jsonl", ["d1"], ["\ud800"], batch({"a": 1}))
    assert list(tmp_path.iterdir()) == []


GOOD = '{"id": "d1", "vector": {"hives": 3}}'
# performance.md-like table: what Anserini drops, splits or mangles without a word
ODD = [
    ('{"id": "x", "vector": {}}', "the vector is empty and Anserini would drop the document"),
    ('{"id": "x", "vector": null}', 'no "vector"'),
    ('{"id": "x"}', 'no "vector"'),
    ('{"vector": {"a": 1}}', 'no "id"'),
    ('{"id": "", "vector": {"a": 1}}', "the id '' is empty"),
    ('{"id": "a b", "vector": {"a": 1}}', "holds white space"),
    ('{"id": 1.5, "vector": {"a": 1}}', '"id" is a float'),
    ('{"id": true, "vector": {"a": 1}}', '"id" is a bool'),
    ('{"id": "x", "vector": {"a": 0}}', "'a' has the impact 0"),
    ('{"id": "x", "vector": {"a": -1}}', "'a' has the impact -1"),
    ('{"id": "x", "vector": {"b": 1, "a": 2.9}}', "'a' has the impact 2.9"),
    ('{"id": "x", "vector": {"a": 1e2}}', "'a' has the impact 100.0"),
    ('{"id": "x", "vector": {"a": "3"}}', "'a' has the impact '3'"),
    ('{"id": "x", "vector": {"a": true}}', "'a' has the impact True"),
    ('{"id": "x", "vector": {"a": 3000000000}}', "'a' has the impact 3000000000"),
    ('{"id": "x", "vector": {"new york": 2}}', "cannot hold the term 'new york'"),
    ('{"id": "x", "vector": {"": 2}}', "it is empty"),
    ('{"id": "x", "vector": {"' + "a" * 256 + '": 2}}', "longer than 254"),
    ('{"id": "x", "vector": {"aaaaaaaa": 500000000}}', "4,500,000,000 characters"),
    ('{"id": "x", "vector": [1, 2]}', '"vector" is a list'),
    ('{"id": "x", "vector": {"a": NaN}}', "not JSON"),
    ('{"id": "x", "vector": {"a": 1}', "not JSON"),
    ('["x"]', "expected an object, got list"),
    ('{"id": "d1", "vector": {"a": 1}}', "the id 'd1'"),
]


@pytest.mark.parametrize(("line", "message"), ODD)
def test_odd_lines_are_found_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    path = tmp_path / "part.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n" + GOOD.replace("d1", "d9") + "\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError) as error:
        list(read_vectors(tmp_path))
    assert str(error.value).startswith(f"{path}:3: ")
    assert message in str(error.value)
    assert check(["check", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert f"{path}:3: " in output
    assert f"{tmp_path}: 2 documents (0 with an empty vector), 1 problems" in output


def test_bytes_that_are_not_utf8_and_broken_gzip(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"id": "x", "vector": {"\xff": 1}}\n')
    with pytest.raises(LearnedSparseError, match=r"a.jsonl:1: not JSON"):
        list(read_vectors(tmp_path))
    (tmp_path / "a.jsonl").write_bytes(f"{GOOD}\n".encode())
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(GOOD.replace("d1", "d2").encode() * 50)[:-9])
    with pytest.raises(LearnedSparseError, match=r"b.jsonl.gz:\d: "):
        list(read_vectors(tmp_path))


def test_what_others_write_is_read(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "2.json").write_text('{"id": 7, "content": "naver", "vector": {"##ing": 2, "日本": 1}}\n')
    (tmp_path / "a.jsonl").write_text(GOOD)  # no line end at the end
    (tmp_path / "manifest.txt").write_text("not ours")
    assert list(read_vectors(tmp_path)) == [("d1", {"hives": 3}), ("7", {"##ing": 2, "日本": 1})]


def test_good_folders_pass_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_part(tmp_path / "part.jsonl", ["d1", "d2"], ["", ""], batch({"a": 1}, {}))
    assert check(["check", str(tmp_path)]) == 0
    assert "2 documents (1 with an empty vector), 0 problems" in capsys.readouterr().out


def test_where_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="no such file or folder"):
        vector_files(tmp_path / "none")
    with pytest.raises(LearnedSparseError, match=r"no .jsonl, .json or .gz file here"):
        vector_files(tmp_path)


def test_lines_are_json_for_everyone(tmp_path: Path) -> None:
    path = tmp_path / "part.jsonl"
    write_part(path, ["d\u2028"[:1], "d2"], ["\u2028\x85\x00", "x"], batch({"a": 1}, {"b": 2}))
    assert [json.loads(line)["contents"] for line in path.read_bytes().split(b"\n")[:-1]] == ["\u2028\x85\x00", "x"]
