"""Indexes of encoded folders, plain vectors and text: equal to Anserini's, verified; limits, and errors."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from learned_sparse.collections.documents import Document
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import EMPTY_TERM
from learned_sparse.index import __main__ as command
from learned_sparse.index import build
from learned_sparse.index.build import build_bm25_index, build_index, delimited, index_directly, open_vectors
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote
from learned_sparse.jsonvector.manifest import Counts, Manifest
from learned_sparse.lucene.searchers import (
    ImpactSearcher,
    document_frequencies,
    postings_of,
    read_contents,
)
from tests.learned_sparse.encoded_folder import Vectors, write_folder
from tests.learned_sparse.lucene.stock_searcher import index_collection

VECTORS: dict[str, dict[str, int]] = {
    "d1": {"hives": 3, "##ing": 200, "日本": 1},
    "d2": {"hives": 1, "itch": 7},
    "d3": {},
    "d4": {"hives": 40_000, "b12d61183": 2},
    "d5": {"hives": 1, "rash": 12},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("encoded"), VECTORS)


@pytest.fixture(scope="module")
def built(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    index = tmp_path_factory.mktemp("indexes") / "tiny"
    assert command.main(["--input", str(folder), "--index", str(index)]) == 0
    return index


@pytest.mark.jvm
def test_the_index_has_the_contents_of_the_files(built: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    total = sum(sum(vector.values()) for vector in VECTORS.values())
    counts = {"documents": 5, "distinct_ids": 5, "postings": 10, "total_impacts": total + 1}
    assert read_contents(built) == counts
    assert postings_of(built, VECTORS) == {**VECTORS, "d3": {EMPTY_TERM: 1}}
    assert postings_of(built, ["d5", "gone", "d2"]) == {name: VECTORS[name] for name in ("d5", "d2")}
    assert postings_of(built, []) == {}
    frequencies = {"hives": 4, "##ing": 1, "日本": 1, "itch": 1, "b12d61183": 1, "rash": 1, EMPTY_TERM: 1}
    assert document_frequencies(built) == frequencies
    assert IndexNote.load(built).manifests == (Manifest.load(folder),)
    modified = (built / INDEX_MANIFEST).stat().st_mtime_ns
    assert command.main(["--input", str(folder), "--index", str(built)]) == 0
    assert "the index of these vectors exists already" in capsys.readouterr().out
    assert (built / INDEX_MANIFEST).stat().st_mtime_ns == modified


@pytest.mark.jvm
def test_verify_reports_each_difference(
    built: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = {**VECTORS, "d1": {"hives": 3, "t0": 3, "日本": 6}, "new": {"all": 1}}
    arguments = ["--input", str(write_folder(tmp_path, changed)), "--index", str(built), "--verify", "1000"]
    assert command.main(arguments) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("6 documents, 11 postings compared: 7 differences")
    assert [line.strip() for line in lines[1:]] == [
        "documents: 6 in the files, 5 in the index",
        "distinct ids: 6 in the files, 5 in the index",
        "postings: 11 in the files, 10 in the index",
        "'d1': 't0': only in the files (3)",
        "'d1': '日本': 6 in the files, 1 in the index",
        "'d1': '##ing': only in the index (200)",
        "'new': not in the index",
    ]
    assert command.main(["--input", str(folder), "--index", str(built), "--verify", "4"]) == 0
    assert capsys.readouterr().out.endswith(": 0 differences\n")


@pytest.mark.jvm
def test_an_index_that_differs_from_its_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "in", {f"d{n}": {"a": 1 + n, "b": 1} for n in range(20)})
    monkeypatch.setattr(build, "delimited", lambda vector: delimited({**vector, "c": 1}))
    with pytest.raises(LearnedSparseError, match=r"postings: 40 in .*, 60 in the index"):
        build_index(folder, tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.jvm
def test_plain_text_for_bm25(tmp_path: Path) -> None:
    documents = [Document("d1", "Hives & itching"), Document("d2", " \0"), Document("d3", "the wing, naïve ☃")]
    assert build_bm25_index(documents, tmp_path / "index", threads=2) == 2
    for other, message in (
        ([documents[0], documents[0]], "distinct ids: 2 in the files, 1 in the index; give each"),
        ([Document("d 1", "x")], "a TREC run cannot hold; rename"),
        ([], "no documents to index"),
    ):
        with pytest.raises(LearnedSparseError, match=message):
            build_bm25_index(other, tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def shard(folder: Path, number: int, other: int = 1) -> Path:
    options = {"num_shards": 2, "shard_id": number}
    counts = Counts(read=1 + other, written=1, other_shards=other, postings=1)
    return write_folder(folder / f"{number}-of-2", {f"d{number}": {"a": 1}}, options=options, counts=counts)


@pytest.mark.jvm
def test_all_shards_are_indexed_together(tmp_path: Path) -> None:
    first, second, grown = shard(tmp_path, 0), shard(tmp_path, 1), shard(tmp_path / "grown", 1, other=2)
    note = build_index([second, first], tmp_path / "index")
    assert (note.facts["documents"], len(note.manifests)) == (2, 2)
    for folders in ([first], [first, first], [first, second, write_folder(tmp_path / "whole", {"x": {"a": 1}})]):
        with pytest.raises(LearnedSparseError, match=r"not all shards of one encoding: .*0-of-2 .shard 0 of 2."):
            open_vectors(folders)
    with pytest.raises(LearnedSparseError, match="had 3 documents, but all shards together hold 2; the input has chan"):
        open_vectors([first, grown])
    repeated = [write_folder(tmp_path / name, {"d1": {name: 1}}) for name in ("a", "b")]
    with pytest.raises(LearnedSparseError, match="distinct ids: 2 in the files, 1 in the index"):
        build_index(repeated, tmp_path / "twice")
    assert not (tmp_path / "twice").exists()


LARGEST = 2**31 - 1
MARKS = st.text(st.sampled_from('":,{}\\x'), min_size=1)
WORDS = st.text(st.characters(exclude_characters=" \x01", exclude_categories=["Cs"]), min_size=1)
GOOD = '{"id": "d1", "vector": {"a": 3, "b": 1}}'


def indexed(folder: Path, *lines: str, threads: int = 1) -> int:
    (folder / "in.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return index_directly([folder / "in.jsonl"], folder / "index", threads=threads)


@example({":": 1})
@example({",": 1, ":a": 2})
@given(st.dictionaries(MARKS | WORDS, st.integers(1, LARGEST), min_size=1))
def test_a_vector_is_written_term_by_term(vector: dict[str, int]) -> None:
    assert delimited(vector) == " ".join(f"{term}\x01{impact}" for term, impact in vector.items())


@pytest.mark.jvm
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "x", "vector": {"a": 1, "b": 0}}', "'b' has the impact 0"),
        ('{"id": "x", "vector": {"a\\u0001": 2}}', "holds the character .* rename"),
        (f'{{"id": "x", "vector": {{"a": {LARGEST}, "b": 1}}}}', "of 'x' add up to 2,147,483,648, .* Lucene holds"),
    ],
)
def test_errors_name_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=rf"in\.jsonl:3: .*{message}"):
        indexed(tmp_path, GOOD, "", line, GOOD)


@pytest.mark.jvm
def test_the_largest_impacts(tmp_path: Path) -> None:
    largest, empty = f'{{"id": 7, "vector": {{"a": {LARGEST}}}}}', f'{{"id": "e", "vector": {{"{EMPTY_TERM}": 1}}}}'
    assert indexed(tmp_path, GOOD, largest, empty, largest.replace("7", "8", 1)) == 2 * LARGEST + 5
    assert list(read_contents(tmp_path / "index").values()) == [4, 4, 5, 2 * LARGEST + 5]
    assert postings_of(tmp_path / "index", ["7", "e"]) == {"7": {"a": LARGEST}, "e": {EMPTY_TERM: 1}}


@pytest.mark.jvm
def test_an_error_stops_all_threads_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_folder(tmp_path / "in", {f"d{n}": {"a": 1} for n in range(900)}, parts=3)
    processed = []

    def interrupted(vector: dict[str, int]) -> str:
        processed.append(vector)
        if len(processed) == 150:
            raise KeyboardInterrupt
        return delimited(vector)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(build, "delimited", interrupted)
        build_index(folder, tmp_path / "index", threads=2)
    assert len(processed) < 500
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]
    assert build_index(folder, tmp_path / "index").facts["documents"] == 900


UNUSUAL = {
    "longest": {"x" * 254: 20_000, "y" * 253: 1, "𝔘" * 127: 3},
    "marks": {
        mark: 3 + n for n, mark in enumerate(["|", "##ing", ":", ",", '"', "\\", ":,", ',":', "{", "\ue000", "\uffff"])
    },
    "scripts": {"日本": 1, "é": 2, "e\u0301": 3, "𝔘𝔫𝔦": 4, "\ufeff": 6, "👩‍🔬": 7},
    "large": {"all": 400_000, "large": 1},
    "empty": {},
    "ünï-𝔡": {"all": 1},
}


def random_vectors(seed: int, documents: int = 60) -> dict[str, dict[str, int]]:
    """Random vectors of few terms, which give many ties, with impacts of all magnitudes."""
    rng = random.Random(seed)
    return {
        f"d{number}": {
            "all": 1 + number % 3,
            **{f"t{min(40, int(rng.paretovariate(0.7)))}": int(10 ** rng.uniform(0, 4)) for _ in range(9)},
        }
        for number in rng.sample(range(1_000), documents)
    }


def both_ways(vectors: Vectors, folder: Path, scoring: str) -> tuple[Path, Path]:
    """Paths of the index written directly and of the index written by Anserini."""
    build_index(write_folder(folder / "in", vectors, parts=3, scoring=scoring), folder / "direct", threads=1)
    words = ["-pretokenized", *["-impact"] * (scoring == "impact")]
    index_collection(folder / "in" / "vectors", folder / "anserini", *words)
    return folder / "direct", folder / "anserini"


def statistics(index: Path, ids: Iterable[str]) -> dict[str, Any]:
    """Totals, postings, and the hits of each term in their order; BM25's scores show the lengths of documents."""
    terms = document_frequencies(index)
    with ImpactSearcher(index) as impacts, ImpactSearcher(index, "bm25") as bm25:
        hits = {term: (impacts.search({term: 1}), bm25.search({term: 1})) for term in terms}
    return {"totals": read_contents(index), "terms": terms, "postings": postings_of(index, ids), "hits": hits}


@pytest.mark.jvm
@pytest.mark.parametrize("scoring", ["impact", "bm25"])
def test_vectors(scoring: str, tmp_path: Path) -> None:
    vectors = {**random_vectors(1), **UNUSUAL}
    indexes = both_ways(vectors, tmp_path, scoring)
    direct, stock = (statistics(index, vectors) for index in indexes)
    assert direct == stock
    with ImpactSearcher(indexes[0]) as searcher:  # one thread keeps the order of the files
        reader = searcher.reader
        names = [reader.storedFields().document(number).get("id") for number in range(reader.maxDoc())]
    assert names == list(vectors)
    assert direct["postings"] == {name: vector or {EMPTY_TERM: 1} for name, vector in vectors.items()}
    assert len({score for _, score in direct["hits"]["all"][1]}) > (10 if scoring == "bm25" else 1)


@pytest.mark.jvm
def test_text_is_analysed_as_by_anserini(tmp_path: Path) -> None:
    texts = {f"d{n}": " ".join(vector) for n, vector in enumerate(random_vectors(4, 250).values())}
    texts |= {
        "odd": "The naïve\0 wings' <b>snow</b>\u2028日本語 \U0001f600",
        "long": "x" * 300 + " flow",
        "empty": " \n",
    }
    assert build_bm25_index([Document(*pair) for pair in texts.items()], tmp_path / "direct", threads=2) == 252
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": name, "contents": text}) for name, text in texts.items()]
    (tmp_path / "in" / "texts.jsonl").write_text("\n".join(lines))
    index_collection(tmp_path / "in", tmp_path / "anserini", kind="JsonCollection")
    direct, stock = (statistics(tmp_path / name, texts) for name in ("direct", "anserini"))
    assert direct == stock
    assert {"flow", "wing", "naïv"} < direct["terms"].keys()
