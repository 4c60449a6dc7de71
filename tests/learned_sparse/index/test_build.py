"""Indexes of encoded folders, plain vectors and text: contents, verification, and errors."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core import EMPTY_TERM, Document, LearnedSparseError, encoded_folders
from learned_sparse.index import __main__ as command
from learned_sparse.index import build_bm25_index, build_index
from learned_sparse.index.build import verify
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote, new_index
from learned_sparse.index.vectors import MAX_SHOWN, Check, encoded_files, plain_files
from learned_sparse.jsonvector import Counts, Manifest
from learned_sparse.lucene import (
    LOG,
    ImpactSearcher,
    IndexContents,
    IndexedCounts,
    document_frequencies,
    every_document_frequency,
    ids_near,
    index_collection,
    postings_of,
    read_contents,
    sampled_documents,
)
from learned_sparse.lucene.stock import read_log
from tests.learned_sparse.encoded_folder import description, write_folder

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


@pytest.fixture(scope="module", params=["--direct", "--anserini"])
def built(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    index = tmp_path_factory.mktemp("indexes") / "tiny"
    assert command.main(["--input", str(folder), "--index", str(index), "--storeDocvectors", request.param]) == 0
    return index


@pytest.mark.jvm
def test_the_index_has_the_contents_of_the_files(built: Path, folder: Path) -> None:
    total = sum(sum(vector.values()) for vector in VECTORS.values())
    assert read_contents(built) == IndexContents(documents=5, distinct_ids=5, postings=10, total_impacts=total + 1)
    assert postings_of(built, VECTORS) == {**VECTORS, "d3": {EMPTY_TERM: 1}}
    assert postings_of(built, ["d5", "gone", "d2"]) == {name: VECTORS[name] for name in ("d5", "d2")}
    assert postings_of(built, []) == {}
    index_note = IndexNote.load(built)
    assert index_note.manifests == (Manifest.load(folder),)
    assert index_note.facts["verified_documents"] == 5
    assert "-storeDocvectors" in index_note.facts["options"]
    if index_note.facts["indexer"] == "IndexCollection":
        assert "Indexing Complete! 5 documents" in (built / LOG).read_text()
    assert not (built / "source").exists()


@pytest.mark.jvm
def test_statistics_of_an_index(built: Path) -> None:
    frequencies = {"hives": 4, "##ing": 1, "日本": 1, "itch": 1, "b12d61183": 1, "rash": 1, EMPTY_TERM: 1}
    assert every_document_frequency(built) == frequencies
    assert document_frequencies(built, ["hives", "日本", "gone"]) == {"hives": 4, "日本": 1, "gone": 0}
    assert sorted(map(set, sampled_documents(built, 9)), key=sorted) == sorted(
        (set(vector or {EMPTY_TERM: 1}) for vector in VECTORS.values()), key=sorted
    )
    assert len(sampled_documents(built, 2)) == 2
    assert ids_near(built, "d11") == ["d2", "d3", "d4"]
    assert ids_near(built, "d9") == []


@pytest.mark.jvm
def test_verification_finds_each_kind_of_loss(built: Path, folder: Path, tmp_path: Path) -> None:
    vectors = encoded_files([folder])
    verify(vectors, built)
    for changed, message in (
        (dataclasses.replace(vectors, documents=(3, 3)), "documents: 6 in the files, 5 in the index"),
        (dataclasses.replace(vectors, postings=11), "postings: 11 in the files, 10 in the index"),
    ):
        with pytest.raises(LearnedSparseError, match=message):
            verify(changed, built)
    with pytest.raises(LearnedSparseError, match="'d2': 'itch': 8 in the files, 7 in the index"):
        verify(encoded_files([write_folder(tmp_path, {**VECTORS, "d2": {"hives": 1, "itch": 8}})]), built)


@pytest.mark.jvm
def test_verify_reports_each_difference(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


@pytest.mark.jvm
def test_verify_without_differences(built: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for count, start in ((4, "4 documents, "), (1_000, "5 documents, 10 postings compared: the index holds them all")):
        assert command.main(["--input", str(folder), "--index", str(built), "--verify", str(count)]) == 0
        assert f": {start}" in capsys.readouterr().out


def test_a_long_report_is_cut() -> None:
    differences = tuple(f"difference {number}" for number in range(MAX_SHOWN + 2))
    check = Check(IndexContents(3, 3, 9, 9), 3, 9, differences)
    assert check.report().splitlines()[-2:] == [f"  difference {MAX_SHOWN - 1}", "  ... and 2 more"]


@pytest.mark.jvm
def test_shards_become_one_index_and_repeated_ids_are_found(tmp_path: Path) -> None:
    first = write_folder(tmp_path / "0", {"d1": VECTORS["d1"]}, parts=1)
    second = write_folder(tmp_path / "1", {"d2": VECTORS["d2"]}, parts=1)
    index_note = build_index([first, second], tmp_path / "index")
    assert (index_note.facts["documents"], len(index_note.manifests)) == (2, 2)
    repeated = write_folder(tmp_path / "2", {"d1": VECTORS["d2"]}, parts=1)
    with pytest.raises(LearnedSparseError, match="distinct ids: 2 in the files, 1 in the index"):
        build_index([first, repeated], tmp_path / "twice")
    assert not (tmp_path / "twice").exists()
    assert not list(tmp_path.glob(".twice*"))


@pytest.mark.jvm
def test_plain_vectors_without_a_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(
        '{"id": "d1", "vector": {"a": 3}}\n\n{"id": 2, "vector": {"a": 1, "b": 2}}\n'
    )
    index = tmp_path / "index"
    assert command.main(["--input", str(tmp_path / "in"), "--no-manifest", "--index", str(index)]) == 0
    assert "2 documents, 3 postings" in capsys.readouterr().out
    assert IndexNote.load(index).manifests == ()
    (index / INDEX_MANIFEST).unlink()
    assert build_index(str(tmp_path / "in"), str(index), overwrite=True, threads=1).facts["documents"] == 2
    with ImpactSearcher(index) as searcher:
        assert searcher.search({"a": 1, "b": 1}) == [("2", 3.0), ("d1", 3.0)]


@pytest.mark.jvm
def test_plain_text_for_bm25(tmp_path: Path) -> None:
    documents = [Document("d1", "Hives & itching"), Document("d2", ""), Document("d3", "the wing, naïve ☃")]
    assert build_bm25_index(documents, tmp_path / "index", threads=2) == 2
    with pytest.raises(LearnedSparseError, match="1 documents repeat an id"):
        build_bm25_index([documents[0], documents[0]], tmp_path / "twice")
    with pytest.raises(LearnedSparseError, match="a TREC run cannot hold; rename"):
        build_bm25_index([Document("d 1", "x")], tmp_path / "space")


@pytest.mark.jvm
def test_a_line_that_anserini_cannot_read_is_an_error_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"id": "d1", "vector": {"a": 3}}\n{"id": "d2"}\n')
    with pytest.raises(LearnedSparseError, match="Anserini could not index everything"):
        index_collection(
            "JsonVectorCollection", tmp_path / "in", tmp_path / "index", ["-impact", "-pretokenized"], threads=1
        )


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("Indexing Complete! 5 documents indexed\nempty: 0", 1, "exit status 1"),
        ("INFO starting", 0, "INFO starting"),
        ("ERROR Unexpected Exception\nIndexing Complete! 5 documents indexed\nempty: 0", 0, "ERROR Unexpected"),
        ("java.lang.OutOfMemoryError: Java heap space", 1, "--heap"),
        (
            "2026-01-02 03:04:05,678 ERROR [pool-1] a.B - x\nIndexing Complete! 5 documents indexed\nempty: 0",
            0,
            "says:\n  2026-01-02 03:04:05,678 ERROR",
        ),
        ("Caused by: java.io.EOFException\nIndexing Complete! 5 documents indexed\nempty: 0", 0, "  Caused by"),
    ],
)
def test_logs_of_failures(text: str, status: int, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        read_log(text, status)


def test_log_of_success() -> None:
    text = (
        "2026-01-02 03:04:05,678 INFO  [main] index.X (X.java:1) - Input: /data/ERROR/FooException/OutOfMemoryError\n"
        "Indexing Complete! 1,234,567 documents indexed\n- empty:                  1,002\n"
    )
    assert read_log(text) == IndexedCounts(1_234_567, 1_002)


def test_files_that_differ_from_the_manifest(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", VECTORS)
    part = folder / "vectors" / "part-00000.jsonl"
    lines = part.read_text().splitlines(keepends=True)
    for text in ("".join(lines[:-1]), "".join(lines).replace('"itch":7', '"itch":8')):
        part.write_text(text)
        with pytest.raises(LearnedSparseError, match=r"part-00000.jsonl: not the bytes the manifest records"):
            encoded_files([folder])
    part.unlink()
    with pytest.raises(LearnedSparseError, match=r"part-00000.jsonl: missing"):
        encoded_files([folder])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"complete": False}, "not complete"),
        ({"kind": "queries", "query_encoder": None}, "only documents can be indexed"),
    ],
)
def test_folders_that_cannot_be_indexed(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        encoded_files([write_folder(tmp_path, VECTORS, **changes)])


def test_shards_of_different_encoders(tmp_path: Path) -> None:
    first = write_folder(tmp_path / "0", {"d1": {"a": 1}})
    second = write_folder(tmp_path / "1", {"d2": {"a": 1}}, encoder=description(side="document", max_length=128))
    with pytest.raises(LearnedSparseError, match=r"encoder.max_length: 64 before, 128 now"):
        encoded_files([first, second])


def test_plain_vectors_are_checked_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "d1", "vector": {"a": 3}}\n{"id": "d2", "vector": {"a": 0.9}}\n')
    with pytest.raises(LearnedSparseError, match=r"a.jsonl:2: .*0.9"):
        plain_files([tmp_path])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to index"),
        (["--input", "x"], "no output folder"),
        (["--model", "nix"], "learned_sparse.encode --model nix --collection pydoc"),
        (["--bm25", "--model", "x"], "--bm25 indexes text"),
        (["--input", "gone", "--index", "x"], "no such file"),
        (["--bm25", "--verify", "3"], "vector files"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, tmp_home: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        command.main(arguments)


def test_default_folders_are_one_or_all_shards(tmp_home: Path) -> None:
    vectors = tmp_home / "vectors" / "tiny"
    for number in (0, 2):
        (vectors / f"m-shard-{number}-of-3").mkdir(parents=True)
    with pytest.raises(LearnedSparseError, match=r"not all shards of one encoding.*: m-shard-0-of-3, m-shard-2-of-3"):
        encoded_folders("tiny", "m", "--input")
    (vectors / "m-shard-1-of-3").mkdir()
    shards = [folder.name for folder in encoded_folders("tiny", "m", "--input")]
    assert shards == [f"m-shard-{number}-of-3" for number in range(3)]
    (vectors / "m").mkdir()
    with pytest.raises(LearnedSparseError, match=r"may be out of date: m, m-shard-0-of-3, .*; remove .*--input"):
        encoded_folders("tiny", "m", "--input")
    for shard in shards:
        (vectors / shard).rmdir()
    assert encoded_folders("tiny", "m", "--input") == [vectors / "m"]


def test_several_encodings_by_shards_are_refused(tmp_home: Path) -> None:
    for count in (2, 4):
        for number in range(count):
            (tmp_home / "vectors" / "tiny" / f"m-shard-{number}-of-{count}").mkdir(parents=True)
    with pytest.raises(LearnedSparseError, match="may be out of date: m-shard-0-of-2, m-shard-0-of-4, "):
        encoded_folders("tiny", "m", "--input")


def shard(folder: Path, number: int, count: int, other: int) -> Path:
    options = {"num_shards": count, "shard_id": number}
    counts = Counts(read=1 + other, written=1, other_shards=other, postings=1)
    return write_folder(folder / f"{number}-of-{count}", {f"d{number}": {"a": 1}}, options=options, counts=counts)


def test_all_shards_are_indexed_together(tmp_path: Path) -> None:
    first, second, grown = shard(tmp_path, 0, 2, 1), shard(tmp_path, 1, 2, 1), shard(tmp_path / "grown", 1, 2, 2)
    assert sum(encoded_files([second, first]).documents) == 2
    for folders in ([first], [first, first], [first, second, write_folder(tmp_path / "whole", {"x": {"a": 1}})]):
        with pytest.raises(LearnedSparseError, match=r"not all shards of one encoding: .*0-of-2 .shard 0 of 2."):
            encoded_files(folders)
    with pytest.raises(LearnedSparseError, match="had 3 documents, but all shards together hold 2; the input has chan"):
        encoded_files([first, grown])


def test_an_index_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    index = tmp_path / "index"
    (tmp_path / ".index.0123456789abcdef.tmp").mkdir()  # from a killed process

    def fail() -> None:
        with new_index(index) as folder:
            (folder / "segments_1").write_text("old")
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011
        fail()
    assert not list(tmp_path.iterdir())
    for text in ("old", "new"):
        with new_index(index, overwrite=text == "new") as folder:
            (folder / "segments_1").write_text(text)
            (folder / INDEX_MANIFEST).write_text("{}")
    assert (index / "segments_1").read_text() == "new"
    with pytest.raises(LearnedSparseError, match=r"--overwrite .*overwrite=True"), new_index(index):
        pass
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with (
        pytest.raises(LearnedSparseError, match="exists and is no index"),
        new_index(tmp_path / "mine", overwrite=True),
    ):
        pass
    with pytest.raises(LearnedSparseError, match="not the note of an index"):
        IndexNote.load(index)


def test_two_commands_that_make_one_index(tmp_path: Path, folder: Path) -> None:
    """The second one says so before it reads or writes anything."""
    with new_index(tmp_path / "index") as first:
        (first / "segments_1").write_text("first")
        message = "index: another command writes here"
        with pytest.raises(LearnedSparseError, match=message):
            build_index(folder, tmp_path / "index", overwrite=True)
    assert (tmp_path / "index" / "segments_1").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
