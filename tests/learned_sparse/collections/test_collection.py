"""Collections from folders and from a user's YAML files, and errors that list the paths that were tried."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from learned_sparse.collections.collection import DATA_VARIABLE, load_collection
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document, Query
from tests.learned_sparse.collections.written import write
from tests.toy_data import save_collection

CORPUS = '{"_id": "d1", "title": "T", "text": "one"}\n{"_id": "d2", "title": "", "text": "two"}\n'
QUERIES = '{"_id": "q1", "text": "first"}\n{"_id": "q2", "text": "second"}\n{"_id": "q3", "text": "unjudged"}\n'


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A BEIR folder with two documents and two splits of one query each."""
    folder = tmp_path / "tiny"
    write(folder / "corpus.jsonl", CORPUS)
    write(folder / "queries.jsonl", QUERIES)
    write(folder / "qrels" / "dev.tsv", "query-id\tcorpus-id\tscore\nq2\td2\t1\n")
    write(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t2\n")
    return folder


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the data folder of this machine."""
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(tmp_path / "home"))


def test_a_beir_folder(beir: Path) -> None:
    collection = load_collection(beir)
    assert collection.name == "tiny"
    assert list(collection.documents()) == [Document("d1", "T one"), Document("d2", "two")]
    assert list(collection.splits) == ["dev", "test"]
    assert collection.queries("dev") == [Query("q2", "second")]
    assert collection.qrels("test") == {"q1": {"d1": 2}}
    assert collection.split("test").remove_query is False
    for file in [file for file in beir.rglob("*") if file.is_file()]:
        write(file.with_name(f"{file.name}.gz"), file.read_text())
        file.unlink()
    collection = load_collection(str(beir))
    assert [document.id for document in collection.documents()] == ["d1", "d2"]
    assert collection.queries("test") == [Query("q1", "first")]


@pytest.mark.parametrize(
    ("splits", "asked", "chosen"),
    [
        ("dev test", (None, None), "test"),
        ("dev test", ("dev", "test"), "dev"),
        ("dev test", (None, "dev"), "dev"),
        ("dev", (None, None), "dev"),
        ("test", (None, "train"), None),
    ],
)
def test_a_split_is_chosen(splits: str, asked: tuple[str | None, str | None], chosen: str | None, beir: Path) -> None:
    """Training, whose default is ``train``, never takes another split."""
    for file in (beir / "qrels").iterdir():
        if file.stem not in splits.split():
            file.unlink()
    if chosen is None:
        with pytest.raises(LearnedSparseError, match="no split 'train'"):
            load_collection(beir).choose_split(*asked)
    else:
        assert load_collection(beir).choose_split(*asked) == chosen


def test_judgements_of_unknown_queries_are_an_error(beir: Path) -> None:
    write(beir / "qrels" / "test.tsv", "q1\td1\t1\nq9\td1\t1\n")
    with pytest.raises(LearnedSparseError, match=r"tiny, split test: 1 judged queries are not among the topics .*'q9'"):
        load_collection(beir).queries("test")


def test_a_folder_named_like_a_collection_of_the_package(
    beir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name alone is refused where both exist, unless the folder holds the files of the package's collection."""
    here = tmp_path / "here"
    shutil.copytree(beir, here / "nq")
    monkeypatch.chdir(here)
    with pytest.raises(LearnedSparseError, match=r"^nq: a collection of the package and a folder here; .*\./nq"):
        load_collection("nq")
    assert len(list(load_collection("./nq").documents())) == 2
    assert load_collection("nq", data=tmp_path).splits.keys() == load_collection("nq", data=here).splits.keys()
    assert load_collection("nq", data=here).description.documents == 2_681_468
    monkeypatch.setenv("LEARNED_SPARSE_DATA", str(here))
    assert load_collection("nq").description.documents == 2_681_468
    assert load_collection("nq").queries("test") == [Query("q1", "first")]  # found below the data folder


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_msmarco_folders(tmp_path: Path, suffix: str) -> None:
    """The files of collectionandqueries.tar.gz, of the documents, and of the Deep Learning tracks."""
    write(tmp_path / "docs" / f"msmarco-docs.tsv{suffix}", "D1\thttp://x.org\tTitle\tbody\n")
    write(tmp_path / "docs" / f"msmarco-doctrain-queries.tsv{suffix}", "7\tof train\n")
    write(tmp_path / "docs" / f"msmarco-doctrain-qrels.tsv{suffix}", "7 0 D1 1\n")
    write(tmp_path / "docs" / f"2019qrels-docs.txt{suffix}", "5 0 D1 2\n")
    collection = load_collection(tmp_path / "docs")
    assert [document.text for document in collection.documents()] == ["http://x.org Title body"]
    assert (collection.queries("train"), collection.qrels("dl19")) == ([Query("7", "of train")], {"5": {"D1": 2}})
    with pytest.raises(LearnedSparseError, match=r"Put the file at .*/msmarco-test2019-queries\.tsv"):
        collection.queries("dl19")
    write(tmp_path / f"collection.tsv{suffix}", "1\tone\n2\ttwo\n")
    for split in ("train", "dev", "dev.small", "eval", "eval.small"):
        write(tmp_path / f"queries.{split}.tsv{suffix}", f"7\tof {split}\n8\tunjudged\n")
        if not split.startswith("eval"):  # the judgements of eval are not public
            write(tmp_path / f"qrels.{split}.tsv{suffix}", "7\t0\t1\t1\n")
    write(tmp_path / f"qrels.more.tsv{suffix}", "9\t0\t1\t1\n")  # no queries.more.tsv: no split
    for year in (2019, 2020):
        write(tmp_path / f"msmarco-test{year}-queries.tsv{suffix}", f"5\tof {year}\n6\tunjudged\n")
        write(tmp_path / f"{year}qrels-pass.txt{suffix}", "5 Q0 2 3\n")
    collection = load_collection(tmp_path)
    assert list(collection.splits) == ["dl19", "dl20", "dev.small", "dev", "train"]
    assert [document.text for document in collection.documents()] == ["one", "two"]
    for split in ("train", "dev", "dev.small"):
        assert collection.queries(split) == [Query("7", f"of {split}")]
        assert collection.split(split).measures == ("MRR@10", "R@1000")
    assert collection.queries("dl20") == [Query("5", "of 2020")]
    assert collection.qrels("dl19") == {"5": {"2": 3}}
    assert collection.split("dl19").measures == ("nDCG@10", "MAP(rel=2)", "R(rel=2)@1000")


def test_a_folder_without_judgements_has_documents_only(beir: Path) -> None:
    for file in (beir / "qrels").iterdir():
        file.unlink()
    write(beir / "qrels" / "test.tsv.bak", "q1\td1\t1\n")
    write(beir / "qrels" / "._test.tsv", "metadata of macOS\n")
    collection = load_collection(beir)
    assert (len(list(collection.documents())), list(collection.splits)) == (2, [])
    with pytest.raises(LearnedSparseError, match=r"tiny: no split 'test', because it has no queries .*--topics"):
        collection.queries("test")


def test_a_users_own_description(tmp_path: Path) -> None:
    write(tmp_path / "texts" / "all.tsv", "d1\tone\n")
    write(tmp_path / "topics.txt", "q1\tfirst\n")
    write(tmp_path / "qrels.txt", "q1 0 d1 1\n")
    text = """
name: mine
title: My own texts
corpus: {files: [texts]}
splits:
  all:
    topics: {files: [missing.txt, topics.txt]}
    qrels: {files: [qrels.txt]}
    measures: [MRR@10]
"""
    collection = load_collection(write(tmp_path / "mine.yaml", text))
    assert [document.id for document in collection.documents()] == ["d1"]
    assert collection.queries("all") == [Query("q1", "first")]
    with pytest.raises(LearnedSparseError, match=r"mine\.yaml: splits: all: 'measures' is missing"):
        load_collection(write(tmp_path / "mine.yaml", text.replace("    measures: [MRR@10]\n", "")))


def test_splits_joined_and_divided_into_folds(tmp_path: Path) -> None:
    save_collection(tmp_path / "toy", ("train", "dev"))
    toy = load_collection(tmp_path / "toy")
    whole = toy.qrels("train") | toy.qrels("dev")
    folds = [toy.qrels(f"train+dev@{number}of3") for number in (1, 2, 3)]
    assert toy.qrels("train+dev") == folds[0] | folds[1] | folds[2] == whole
    assert sum(map(len, folds)) == len(whole) > max(map(len, folds))
    assert toy.qrels("train+dev@not2of3") == folds[0] | folds[2]
    assert [query.id for query in toy.queries("train+dev")] == list(whole)
    assert {query.id for query in toy.queries("train+dev@2of3")} == set(folds[1])
    for wrong, told in (("train+dve", "'dve'.*dev"), ("dev@4of3", "@not1of5"), ("dev@fold1", "@1of5")):
        with pytest.raises(LearnedSparseError, match=told):
            toy.queries(wrong)
