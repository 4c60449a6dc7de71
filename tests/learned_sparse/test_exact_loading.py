"""What is loaded into arrays is what the strict reader reads, and so are the errors."""

from __future__ import annotations

import dataclasses
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.terms import EMPTY_TERM, NO_TERMS, unfit_reason
from learned_sparse.exact import ExactSearcher
from learned_sparse.jsonvector.manifest import Counts, Manifest, Part
from learned_sparse.jsonvector.vector_files import read_vectors, write_part
from learned_sparse.search import exact_loading
from learned_sparse.search.exact_loading import load_vectors
from tests.learned_sparse.encoded_folder import write_folder

characters = st.characters(exclude_categories=["Cs"])
names = st.text(characters, min_size=1).filter(lambda text: text.split() == [text])
terms = st.text(characters, min_size=1, max_size=12).filter(lambda term: unfit_reason(term) is None)
vectors = st.dictionaries(terms, st.integers(1, 10**6) | st.integers(1, 300), max_size=8)
VECTORS = {"d3": {"a": 2}, "d1": {"a": 1, "b": 2}, "d2": {}, "d10": {"c": 300}, "d4": {"b": 1}}
GOOD = '{"id": "d1", "vector": {"hives": 3}}'


def loaded(*paths: Path) -> list[tuple[str, dict[str, int]]]:
    ids, batch = load_vectors(paths)
    return [(name, batch.row(row)) for row, name in enumerate(ids)]


@given(st.dictionaries(names, st.tuples(st.text(characters), vectors), max_size=6), st.booleans())
def test_what_is_written_is_loaded(documents: dict[str, tuple[str, dict[str, int]]], compress: bool) -> None:
    rows = [vector for _, vector in documents.values()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("part.jsonl.gz" if compress else "part.jsonl")
        texts = [text for text, _ in documents.values()]
        write_part(path, list(documents), texts, SparseBatch.from_dicts(rows, dtype=np.int64), compress=compress)
        assert loaded(path) == list(zip(documents, rows, strict=True))


def test_what_others_write_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    lines = [
        '{"id": 7, "content": "true", "vector": {"##ing": 2, "日本": 1}}',
        "",
        '{"vector": {"a": 536870912}, "id": "x", "more": [true, null]}',
        f'{{"id": "y", "vector": {{"{EMPTY_TERM}": 1}}}}',
    ]
    (tmp_path / "b" / "2.json").write_text("\n".join(lines))
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(GOOD.encode()))
    found = loaded(tmp_path)
    assert found == list(read_vectors(tmp_path))
    assert found == [
        ("d1", {"hives": 3}), ("7", {"##ing": 2, "日本": 1}), ("x", {"a": 2**29}), ("y", {})
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        '{"id": "x", "vector": {}}',
        '{"id": "x", "vector": null}',
        '{"id": "x"}',
        '{"vector": {"a": 1}}',
        '{"id": "", "vector": {"a": 1}}',
        '{"id": "a b", "vector": {"a": 1}}',
        '{"id": " a", "vector": {"a": 1}}',
        '{"id": 1.5, "vector": {"a": 1}}',
        '{"id": true, "vector": {"a": 1}}',
        '{"id": null, "vector": {"a": 1}}',
        '{"id": "x", "vector": {"a": 0}}',
        '{"id": "x", "vector": {"a": -1}}',
        '{"id": "x", "vector": {"b": 1, "a": 2.9}}',
        '{"id": "x", "vector": {"a": 1e2}}',
        '{"id": "x", "vector": {"a": "3"}}',
        '{"id": "x", "vector": {"a": true}}',
        '{"id": "x", "vector": {"a": false}}',
        '{"id": "x", "vector": {"a": null}}',
        '{"id": "x", "vector": {"a": 3000000000}}',
        '{"id": "x", "vector": {"a": 99999999999999999999}}',
        '{"id": "x", "vector": {"new york": 2}}',
        '{"id": "x", "vector": {"b": 1, " c": 2}}',
        '{"id": "x", "vector": {"": 2}}',
        '{"id": "x", "vector": {"é\\u00a0b": 2}}',
        f'{{"id": "x", "vector": {{"{EMPTY_TERM}": 2}}}}',
        f'{{"id": "x", "vector": {{"{NO_TERMS}": 1}}}}',
        '{"id": "x", "vector": {"' + "a" * 256 + '": 2}}',
        '{"id": "x", "vector": {"' + "😀" * 128 + '": 2}}',
        '{"id": "x", "vector": {"aaaaaaaa": 119304648}}',  # 9 characters each: just above 2**30
        '{"id": "x", "vector": [1, 2]}',
        '{"id": "x", "vector": "a"}',
        '{"id": "x", "vector": 7}',
        '{"id": "x", "vector": {"a": NaN}}',
        '{"id": "x", "vector": {"a": 1}',
        '{"id": "x", "vector": {"a": 1}} {"id": "y", "vector": {"a": 1}}',
        '["x"]',
        '{"id": "d1", "vector": {"a": 1}}',
        '{"id": "d0", "vector": {"a": 1}}',
    ],
)
def test_errors_are_those_of_the_strict_reader(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.jsonl").write_text(GOOD.replace("d1", "d0"), encoding="utf-8")
    path = tmp_path / "b.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n" + GOOD.replace("d1", "d9") + "\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError) as strict:
        list(read_vectors(tmp_path))
    assert str(strict.value).startswith(f"{path}:3: ")
    for source in (tmp_path, [tmp_path / "a.jsonl", path]):
        with pytest.raises(LearnedSparseError) as error:
            ExactSearcher.from_vectors(source)
        assert str(error.value) == str(strict.value)


def test_long_vectors_that_anserini_can_spell_out(tmp_path: Path) -> None:
    rows = {"x": {"aaaaaaaa": 119_304_647}, "y": {"hives": 3, "itch": 1}, "z": {"aaaaaaaa": 119_304_647}}
    lines = [json.dumps({"id": name, "vector": row}) for name, row in rows.items()]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert loaded(tmp_path) == list(rows.items())


def test_nothing_is_hidden_that_only_the_arrays_refuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text(GOOD)
    monkeypatch.setattr(exact_loading, "_checked", int)
    with pytest.raises(TypeError, match="int"):
        load_vectors([tmp_path])


def test_lines_are_read_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_loading, "LINES", 2)
    folder = write_folder(tmp_path / "encoded", VECTORS, parts=2)
    assert loaded(folder) == list(VECTORS.items())


def test_broken_gzip_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(GOOD.encode() * 50)[:-9])
    with pytest.raises(LearnedSparseError, match=r"b.jsonl.gz:\d: "):
        load_vectors([tmp_path])
    with pytest.raises(LearnedSparseError, match="no such file or folder"):
        load_vectors([tmp_path / "none"])


def test_encoded_folders_and_their_shards(tmp_path: Path) -> None:
    some, others = dict(list(VECTORS.items())[:3]), dict(list(VECTORS.items())[3:])
    first, second = write_folder(tmp_path / "1", some), write_folder(tmp_path / "2", others)
    shards: list[str | Path] = [first, str(second)]
    searcher = ExactSearcher.from_vectors(shards)
    whole = ExactSearcher.from_vectors(VECTORS.items())
    assert searcher.ids == whole.ids == sorted(VECTORS)
    query = {"a": 1, "b": 1, "c": 1}
    assert searcher.search(query) == whole.search(query) == [("d10", 300), ("d1", 3), ("d3", 2), ("d4", 1)]
    with pytest.raises(LearnedSparseError, match="occurs twice"):
        ExactSearcher.from_vectors([first, first])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"complete": False}, "not complete; run learned_sparse.encode with --resume"),
        ({"kind": "queries"}, "encoded queries, not documents"),
        ({"scoring": "bm25"}, "scored by BM25"),
        ({"counts": Counts(postings=6)}, r"manifest.json: 6 impacts in the manifest, 5 read; encode anew"),
    ],
)
def test_manifests_that_say_otherwise(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = write_folder(tmp_path, VECTORS, **changes)
    with pytest.raises(LearnedSparseError, match=message):
        load_vectors([folder])


def test_parts_that_are_not_as_recorded(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, VECTORS, parts=2)
    part = folder / "vectors" / "part-00001.jsonl"
    lines = part.read_text().splitlines(keepends=True)
    part.write_text("".join(lines[:-1]))
    with pytest.raises(LearnedSparseError, match=r"part-00001.jsonl: 2 documents in the manifest, 1 read; encode anew"):
        load_vectors([folder])
    part.unlink()
    with pytest.raises(LearnedSparseError, match=r"part-00001.jsonl: missing"):
        load_vectors([folder])
    part.write_text("".join(lines))
    manifest = Manifest.load(folder)
    known = Part(file="vectors/part-00000.jsonl", documents=3, sha256="")
    dataclasses.replace(manifest, parts=(known,)).save(folder)
    with pytest.raises(LearnedSparseError, match=r"part-00001.jsonl: not in the manifest"):
        load_vectors([folder])
