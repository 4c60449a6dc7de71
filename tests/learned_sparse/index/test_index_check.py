"""The check of an index against the vector files: what it counts, and each kind of difference it sees."""

from __future__ import annotations

from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.terms import EMPTY_TERM
from learned_sparse.index import __main__ as index
from learned_sparse.index.vectors import MAX_SHOWN, Check
from learned_sparse.lucene import IndexContents, postings_of
from tests.learned_sparse.encoded_folder import write_folder

VECTORS = {f"d{number}": {"all": 1, f"t{number % 3}": 2 + number, "日本": 7} for number in range(9)} | {"e": {}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("check") / "in", VECTORS, parts=3)


@pytest.fixture(scope="module")
def built(folder: Path) -> Path:
    place = folder.parent / "index"
    assert index.main(["--input", str(folder), "--index", str(place)]) == 0
    return place


def verify(folder: Path, place: Path, count: int) -> int:
    return index.main(["--input", str(folder), "--index", str(place), "--verify", str(count)])


@pytest.mark.jvm
def test_postings_of_documents(built: Path) -> None:
    assert postings_of(built, VECTORS) == {**VECTORS, "e": {EMPTY_TERM: 1}}
    assert postings_of(built, ["d7", "gone", "d2"]) == {name: VECTORS[name] for name in ("d7", "d2")}
    assert postings_of(built, []) == {}


@pytest.mark.jvm
def test_an_index_as_the_files_say(built: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(folder, built, 4) == 0
    assert "4 documents" in capsys.readouterr().out
    assert verify(folder, built, 1_000) == 0
    assert "10 documents, 28 postings compared: the index holds them all" in capsys.readouterr().out


@pytest.mark.jvm
def test_each_difference_is_reported(built: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = {**VECTORS, "d1": {"all": 1, "t0": 3, "日本": 6}, "new": {"all": 1}}
    assert verify(write_folder(tmp_path, others), built, 1_000) == 2
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("11 documents, 29 postings compared: 7 differences")
    assert [line.strip() for line in said[1:]] == [
        "documents: 11 in the files, 10 in the index",
        "distinct ids: 11 in the files, 10 in the index",
        "postings: 29 in the files, 28 in the index",
        "'d1': 't0': only in the files (3)",
        "'d1': '日本': 6 in the files, 7 in the index",
        "'d1': 't1': only in the index (3)",
        "'new': not in the index",
    ]


def test_a_long_report_is_cut() -> None:
    check = Check(IndexContents(3, 3, 9, 9), 3, 9, tuple(f"difference {number}" for number in range(MAX_SHOWN + 2)))
    assert check.report().splitlines()[-2:] == [f"  difference {MAX_SHOWN - 1}", "  ... and 2 more"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--bm25", "--verify", "3"], "vector files"), (["--model", "m", "--verify", "0"], "at least 1")],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        index.main(arguments)
