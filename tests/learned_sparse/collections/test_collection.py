"""Collections from folders, a user's YAML files, the ir_datasets catalogue and Pyserini; errors list what was tried."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections.catalogue import folder_name, name_of_folder
from learned_sparse.collections.collection import DATA_VARIABLE, load_collection
from learned_sparse.collections.descriptions import MEASURES, descriptions
from learned_sparse.collections.documents import Document
from learned_sparse.collections.topics import Query
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import is_name, locked
from tests.catalogue_data import catalogued
from tests.learned_sparse.input_files import write
from tests.toy_data import TEXTS, save_beir, save_collection


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A BEIR folder with two documents and two splits of one query each."""
    splits = {"dev": [("q2", "d2", 1)], "test": [("q1", "d1", 2)]}
    queries = {"q1": "first", "q2": "second", "q3": "unjudged"}
    save_beir(tmp_path / "tiny", {"d1": "one", "d2": "two"}, queries, splits)
    return tmp_path / "tiny"


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_home: Path) -> None:
    """Hide the data folder of this machine."""
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def test_a_beir_folder(beir: Path) -> None:
    collection = load_collection(beir)
    assert collection.name == "tiny"
    assert list(collection.documents()) == [Document("d1", "one"), Document("d2", "two")]
    assert list(collection.splits) == ["dev", "test"]
    assert collection.queries("dev") == [Query("q2", "second")]
    assert collection.qrels("test") == {"q1": {"d1": 2}}
    for file in [file for file in beir.rglob("*") if file.is_file()]:
        write(file.with_name(f"{file.name}.gz"), file.read_text())
        file.unlink()
    collection = load_collection(str(beir))
    assert [document.id for document in collection.documents()] == ["d1", "d2"]
    assert collection.queries("test") == [Query("q1", "first")]


def test_a_split_is_chosen(beir: Path) -> None:
    """Training, whose default is ``train``, never takes another split."""
    choose = load_collection(beir).choose_split
    assert (choose(), choose("dev", "test"), choose(None, "dev")) == ("test", "dev", "dev")
    (beir / "qrels" / "test.tsv").unlink()
    assert load_collection(beir).choose_split() == "dev"
    with pytest.raises(LearnedSparseError, match="no split 'train'"):
        load_collection(beir).choose_split(None, "train")


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


def test_without_ir_datasets_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(LearnedSparseError, match=r"pip install 'learned-sparse\[data\]'[\s\S]*LEARNED_SPARSE_DATA"):
        load_collection("scifact", data=tmp_path).documents()
    with pytest.raises(LearnedSparseError, match="ir_datasets is not installed"):
        load_collection("ir_datasets:vaswani")


@pytest.fixture(name="ir_datasets")
def installed_ir_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module ``ir_datasets`` with an empty cache folder."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "cache"))
    return pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")


@pytest.fixture
def register(ir_datasets: Any) -> Iterator[Callable[[Any], str]]:
    """A function that registers a data set and returns its name."""
    name = "learned-sparse-test/alone"

    def add(dataset: Any) -> str:
        ir_datasets.registry.register(name, dataset)
        return name

    yield add
    ir_datasets.registry._registered.pop(name, None)


def test_a_data_set_without_parts(tmp_path: Path, ir_datasets: Any, register: Callable[[Any], str]) -> None:
    files = {
        "docs_tsv": write(tmp_path / "docs.tsv", "d1\tone\nd2\t \nd1\tagain\n"),
        "queries_tsv": write(tmp_path / "queries.tsv", "q1\tfirst\nq1\trepeated\n"),
        "qrels_trec": write(tmp_path / "qrels.txt", "q1 0 d1 1\n"),
    }
    name = register(ir_datasets.create_dataset(**{kind: str(file) for kind, file in files.items()}))
    collection = load_collection(f"ir_datasets:{name}")
    assert collection.choose_split(default="train") == "alone"  # the only split that the name can mean
    assert (collection.name, list(collection.splits)) == ("ir_datasets--learned-sparse-test--alone", ["alone"])
    assert collection.queries("alone") == [Query("q1", "first")]
    reader = collection.documents(on_bad_line="skip")
    assert list(reader) == [Document("d1", "one"), Document("d2", "")]
    assert (reader.empty, reader.skipped) == (1, {"duplicate id": 1})
    with pytest.raises(LearnedSparseError, match=r"alone, document 3: duplicate id"):
        list(collection.documents())


def test_a_part_has_the_documents_of_the_data_set_and_its_own_queries() -> None:
    with catalogued() as name:
        part, parent = load_collection(f"ir_datasets:{name}/dev/small"), load_collection(f"ir_datasets:{name}")
        assert part.name == parent.name == "ir_datasets--learned-sparse-test--tiny"
        assert list(part.splits) == ["dev-small"]
        assert list(parent.splits) == ["train", "test", "dev-small"]
        assert load_collection(parent.name) == load_collection(f"ir_datasets:{name}")
        assert load_collection(f"ir_datasets:{name}/v2").name == f"{parent.name}--v2"
        assert part.split("dev-small") == parent.split("dev-small")
        assert part.queries("dev-small")[0] == Query("q0", " ".join(TEXTS[0].split()[:2]))
        assert part.qrels("dev-small")["q11"] == {"d11": 1}
        assert [document.text for document in part.documents()] == [d.text for d in parent.documents()] == TEXTS


@pytest.mark.usefixtures("ir_datasets")
def test_a_split_has_the_measures_of_the_shipped_description_with_the_same_judgements() -> None:
    graded = ("nDCG@10", "MAP(rel=2)", "R(rel=2)@1000")
    for name in ("trec-dl-2019/judged", "trec-dl-2019"):
        (split,) = load_collection(f"ir_datasets:msmarco-passage/{name}").splits.values()
        assert (split.measures, split.queries, split.qrels.ir_datasets) == (graded, 43, f"msmarco-passage/{name}")
    for name, score in (("beir/scifact/test", 0.6789), ("beir/cqadupstack/tex", 0.2244)):
        (split,) = load_collection(f"ir_datasets:{name}").splits.values()
        assert (split.remove_query, split.expected[0].scores["nDCG@10"]) == (True, score)
    (split,) = load_collection("ir_datasets:vaswani").splits.values()
    assert (split.measures, split.remove_query, split.expected) == (MEASURES, False, ())


def test_no_two_names_of_the_catalogue_share_a_folder(ir_datasets: Any) -> None:
    names = list(ir_datasets.registry)
    folders = [folder_name(f"ir_datasets:{name}") for name in names]
    assert len(folders) > 500
    assert len({name.lower() for name in folders} | set(descriptions())) == len(folders) + len(descriptions())
    assert all(map(is_name, folders))
    assert [name_of_folder(folder) for folder in folders] == [f"ir_datasets:{name}" for name in names]


def test_a_failing_download_names_the_page_of_the_data_set(
    ir_datasets: Any, register: Callable[[Any], str], tmp_path: Path
) -> None:
    """Without a network, ir_datasets reads files that the user downloaded; one process downloads at a time."""
    util = ir_datasets.util

    class Offline(util.BaseDownload):  # type: ignore[misc, name-defined]
        def stream(self) -> Any:
            with pytest.raises(LearnedSparseError, match="wait until it ends"), locked(util.home_path() / "downloads"):
                pass
            raise ConnectionError("no network")

    path = tmp_path / "cache" / "docs.tsv"
    name = register(
        ir_datasets.datasets.base.Dataset(ir_datasets.formats.TsvDocs(util.Download([Offline()], cache_path=str(path))))
    )
    with pytest.raises(LearnedSparseError) as error:
        load_collection(f"ir_datasets:{name}").documents()
    assert (
        f"ir_datasets:{name}: ir_datasets cannot read its docs (ConnectionError: no network); "
        f"https://ir-datasets.com/learned-sparse-test.html#{name} says how to get its files"
    ) in str(error.value)
    write(path, "d1\tone\n")
    assert list(load_collection(f"ir_datasets:{name}").documents()) == [Document("d1", "one")]


REGISTERED = """
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.collections.collection import _registered_queries, registered_qrels
queries, qrels = _registered_queries("dl19-passage"), registered_qrels("dl19-passage")
print(len(queries), queries[0], len(qrels), sum(map(len, qrels.values())))
for read in (_registered_queries, registered_qrels):
    for name in ("dl19-pasage", "beir-v1.0.0-nfcorpus-test"):
        try:
            read(name)
        except LearnedSparseError as error:
            print(error)
"""


@pytest.mark.jvm
def test_registered_topics_and_judgements(shared_data: Path, tmp_path: Path, python: Any) -> None:
    """Pyserini reads its cache below Java's ``user.home`` before it uses the network: a filled cache works offline."""
    cache = tmp_path / ".cache" / "pyserini" / "topics-and-qrels"
    cache.mkdir(parents=True)
    for file in (shared_data / "topics-and-qrels").glob("*.dl19-passage.txt"):
        shutil.copy(file, cache)
    offline = f"-Duser.home={tmp_path} -Dhttps.proxyHost=localhost -Dhttps.proxyPort=9"
    done = python("-c", REGISTERED, env={**os.environ, "JAVA_TOOL_OPTIONS": offline})
    lines = [line for line in done.stdout.splitlines() if "Downloading" not in line]
    assert lines[0] == "43 Query(id='19335', text='anthropological definition of environment') 43 9260", done.stderr
    assert lines[1] == "topics 'dl19-pasage': no file, and not registered in Pyserini; did you mean 'dl19-passage'?"
    assert lines[2].startswith("topics 'beir-v1.0.0-nfcorpus-test': Pyserini cannot download them (JavaException: ")
    assert lines[3] == "judgements 'dl19-pasage': no file, and not registered in Pyserini; did you mean 'dl19-passage'?"
    assert lines[4].endswith("without a network, use a file")
