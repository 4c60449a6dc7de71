"""Encoded folders into Lucene: what is verified, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from learned_sparse import lucene
from learned_sparse.core import encoded_folders
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document
from learned_sparse.index import __main__ as index
from learned_sparse.index import build_bm25_index
from learned_sparse.index.build import build_index, verify
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote, new_index
from learned_sparse.index.vectors import encoded_files, plain_files
from learned_sparse.jsonvector import Manifest
from learned_sparse.lucene.stock import read_log
from tests.learned_sparse.encoded_folder import description, write_folder

VECTORS = {
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
    place = tmp_path_factory.mktemp("indexes") / "tiny"
    assert index.main(["--input", str(folder), "--index", str(place), "--storeDocvectors", request.param]) == 0
    return place


@pytest.mark.jvm
def test_the_index_holds_what_the_files_hold(built: Path, folder: Path) -> None:
    contents = lucene.read_contents(built)
    total = sum(sum(vector.values()) for vector in VECTORS.values())
    assert contents == lucene.IndexContents(documents=5, distinct_ids=5, postings=10, total_impacts=total + 1)
    note = IndexNote.load(built)
    assert note.manifests == (Manifest.load(folder),)
    assert note.facts["verified_documents"] == 5
    assert "-storeDocvectors" in note.facts["options"]
    if note.facts["indexer"] == "IndexCollection":
        assert "Indexing Complete! 5 documents" in (built / lucene.LOG).read_text()
    assert not (built / "source").exists()


@pytest.mark.jvm
def test_the_verification_sees_each_kind_of_loss(built: Path, folder: Path, tmp_path: Path) -> None:
    vectors = encoded_files([folder])
    verify(vectors, built)
    more = dataclasses.replace(vectors, documents=(3, 3))
    with pytest.raises(LearnedSparseError, match="documents: 6 in the files, 5 in the index"):
        verify(more, built)
    with pytest.raises(LearnedSparseError, match="postings: 11 in the files, 10 in the index"):
        verify(dataclasses.replace(vectors, postings=11), built)
    for change, message in (
        ({"itch": 8}, "'itch': 8 in the files, 7 in the index"),
        ({"wing": 7}, r"'wing': only in the files \(7\)"),
    ):
        changed = write_folder(tmp_path / str(change), {**VECTORS, "d2": {"hives": 1, **change}})
        with pytest.raises(LearnedSparseError, match=f"'d2': {message}"):
            verify(encoded_files([changed]), built)


@pytest.mark.jvm
def test_shards_become_one_index_and_a_repeated_document_is_seen(tmp_path: Path) -> None:
    first = write_folder(tmp_path / "0", {"d1": VECTORS["d1"]}, parts=1)
    second = write_folder(tmp_path / "1", {"d2": VECTORS["d2"]}, parts=1)
    note = build_index(encoded_files([first, second]), tmp_path / "index")
    assert (note.facts["documents"], len(note.manifests)) == (2, 2)
    again = write_folder(tmp_path / "2", {"d1": VECTORS["d2"]}, parts=1)
    with pytest.raises(LearnedSparseError, match="distinct ids: 2 in the files, 1 in the index"):
        build_index(encoded_files([first, again]), tmp_path / "twice")
    assert not (tmp_path / "twice").exists()
    assert not list(tmp_path.glob(".twice*"))


@pytest.mark.jvm
def test_plain_vectors_without_a_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(
        '{"id": "d1", "vector": {"a": 3}}\n\n{"id": 2, "vector": {"a": 1, "b": 2}}\n'
    )
    place = tmp_path / "index"
    assert index.main(["--input", str(tmp_path / "in"), "--no-manifest", "--index", str(place)]) == 0
    assert "2 documents, 3 postings" in capsys.readouterr().out
    assert IndexNote.load(place).manifests == ()


@pytest.mark.jvm
def test_plain_text_for_bm25(tmp_path: Path) -> None:
    documents = [Document("d1", "Hives & itching"), Document("d2", ""), Document("d3", "the wing, naïve ☃")]
    assert build_bm25_index(documents, tmp_path / "index", threads=2) == 2
    with pytest.raises(LearnedSparseError, match="1 documents repeat an id"):
        build_bm25_index([documents[0], documents[0]], tmp_path / "twice")
    with pytest.raises(LearnedSparseError, match="no run can hold it"):
        build_bm25_index([Document("d 1", "x")], tmp_path / "space")


@pytest.mark.jvm
def test_text_that_anserini_cannot_read_is_an_error_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"id": "d1", "vector": {"a": 3}}\n{"id": "d2"}\n')
    with pytest.raises(LearnedSparseError, match="Anserini could not index everything"):
        lucene.index_collection(
            "JsonVectorCollection", tmp_path / "in", tmp_path / "index", ["-impact", "-pretokenized"], threads=1
        )


def test_files_changed_after_the_manifest_was_written(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "in", VECTORS)
    part = folder / "vectors" / "part-00000.jsonl"
    lines = part.read_text().splitlines(keepends=True)
    part.write_text("".join(lines[:-1]))
    with pytest.raises(LearnedSparseError, match=r"part-00000.jsonl: not the bytes the manifest records"):
        encoded_files([folder])
    part.write_text("".join(lines).replace('"itch":7', '"itch":8'))
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
def test_folders_that_are_not_to_be_indexed(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
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
        (["--model", "x", "--threads", "0"], "at least 1"),
        (["--input", "gone", "--index", "x"], "no such file"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, tmp_home: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        index.main(arguments)


def test_default_folders_are_one_or_all_shards(tmp_home: Path) -> None:
    vectors = tmp_home / "vectors" / "tiny"
    for number in (0, 2):
        (vectors / f"m-shard-{number}-of-3").mkdir(parents=True)
    with pytest.raises(LearnedSparseError, match="not all shards of one encoding: m-shard-0-of-3, m-shard-2-of-3"):
        encoded_folders("tiny", "m", "--input")
    (vectors / "m-shard-1-of-3").mkdir()
    assert [folder.name for folder in encoded_folders("tiny", "m", "--input")] == [
        f"m-shard-{n}-of-3" for n in range(3)
    ]
    (vectors / "m").mkdir()
    assert encoded_folders("tiny", "m", "--input") == [vectors / "m"]


def test_an_index_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "index"
    killed = tmp_path / ".index.0123456789abcdef.tmp"
    killed.mkdir()

    def fail() -> None:
        with new_index(place) as folder:
            (folder / "segments_1").write_text("old")
            raise OSError

    with pytest.raises(OSError):  # noqa: PT011
        fail()
    assert not list(tmp_path.iterdir())
    for text in ("old", "new"):
        with new_index(place, overwrite=text == "new") as folder:
            (folder / "segments_1").write_text(text)
            (folder / INDEX_MANIFEST).write_text("{}")
    assert (place / "segments_1").read_text() == "new"
    with pytest.raises(LearnedSparseError, match="--overwrite"), new_index(place):
        pass
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with (
        pytest.raises(LearnedSparseError, match="exists and is no index"),
        new_index(tmp_path / "mine", overwrite=True),
    ):
        pass
    with pytest.raises(LearnedSparseError, match="not the note of an index"):
        IndexNote.load(place)


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("Indexing Complete! 5 documents indexed\nempty: 0", 1, "exit status 1"),
        ("INFO starting", 0, "INFO starting"),
        ("ERROR Unexpected Exception\nIndexing Complete! 5 documents indexed\nempty: 0", 0, "ERROR Unexpected"),
        ("java.lang.OutOfMemoryError: Java heap space", 1, "--heap"),
    ],
)
def test_logs_of_failures(text: str, status: int, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        read_log(text, status)


def test_log_of_success() -> None:
    text = "Indexing Complete! 1,234,567 documents indexed\n- empty:                  1,002\n"
    assert read_log(text) == lucene.IndexedCounts(1_234_567, 1_002)
