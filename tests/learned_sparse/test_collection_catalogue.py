"""Collections from elsewhere: the ir_datasets catalogue, and what is registered in Pyserini."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.description_files import descriptions
from learned_sparse.collections.folders import MEASURES
from learned_sparse.collections.names import check_name, folder_name, spelling_of
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document, Query
from tests.catalogue_data import catalogued
from tests.toy_data import TEXTS

Python = Callable[..., subprocess.CompletedProcess[str]]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_without_ir_datasets_the_way_out_is_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(LearnedSparseError, match=r"pip install 'learned-sparse\[data\]'[\s\S]*LEARNED_SPARSE_DATA"):
        load_collection("scifact", data=tmp_path).documents()
    with pytest.raises(LearnedSparseError, match="ir_datasets is not installed"):
        load_collection("ir_datasets:vaswani")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[str]:
    """A data set without parts in the real ir_datasets catalogue, made of local files: its name."""
    ir_datasets = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    dataset = ir_datasets.create_dataset(
        docs_tsv=str(write(tmp_path / "docs.tsv", "d1\tone\nd2\t \nd1\tagain\n")),
        queries_tsv=str(write(tmp_path / "queries.tsv", "q1\tfirst\n")),
        qrels_trec=str(write(tmp_path / "qrels.txt", "q1 0 d1 1\n")),
    )
    name = "learned-sparse-test/alone"
    ir_datasets.registry.register(name, dataset)
    yield name
    del ir_datasets.registry._registered[name]


def test_a_data_set_of_the_catalogue(alone: str) -> None:
    collection = load_collection(f"ir_datasets:{alone}")
    assert (collection.name, list(collection.splits)) == ("ir_datasets--learned-sparse-test--alone", ["alone"])
    assert collection.queries("alone") == [Query("q1", "first")]
    reader = collection.documents(on_bad_line="skip")
    assert list(reader) == [Document("d1", "one")]
    assert reader.skipped == {"empty text": 1, "duplicate id": 1}
    with pytest.raises(LearnedSparseError, match=r"alone, document 2: empty text"):
        list(collection.documents())


def test_documents_of_the_whole_and_queries_of_a_part() -> None:
    with catalogued() as name:
        part, whole = load_collection(f"ir_datasets:{name}/dev/small"), load_collection(f"ir_datasets:{name}")
        assert part.name == whole.name == "ir_datasets--learned-sparse-test--tiny"
        assert list(part.splits) == ["dev-small"]
        assert list(whole.splits) == ["train", "test", "dev-small"]
        assert load_collection(whole.name) == load_collection(f"ir_datasets:{name}")
        assert load_collection(f"ir_datasets:{name}/v2").name == f"{whole.name}--v2"
        assert part.split("dev-small") == whole.split("dev-small")
        assert part.queries("dev-small")[0] == Query("q0", " ".join(TEXTS[0].split()[:2]))
        assert part.qrels("dev-small")["q11"] == {"d11": 1}
        assert [document.text for document in part.documents()] == [d.text for d in whole.documents()] == TEXTS


@pytest.mark.parametrize(
    ("name", "filed", "splits"),
    [
        ("beir/scifact/test", "ir_datasets--beir--scifact", ["test"]),
        ("beir/scifact", "ir_datasets--beir--scifact", ["test", "train"]),
        ("beir/arguana", "ir_datasets--beir--arguana", ["arguana"]),
        ("beir/cqadupstack/tex", "ir_datasets--beir--cqadupstack--tex", ["tex"]),
        ("msmarco-passage/trec-dl-2019/judged", "ir_datasets--msmarco-passage", ["trec-dl-2019-judged"]),
        ("msmarco-document/dev", "ir_datasets--msmarco-document", ["dev"]),
        ("vaswani", "ir_datasets--vaswani", ["vaswani"]),
        ("car/v1.5/test200", "ir_datasets--car--v1.5", ["test200"]),
    ],
)
def test_names_of_the_real_catalogue(name: str, filed: str, splits: list[str]) -> None:
    pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    collection = load_collection(f"ir_datasets:{name}")
    assert (collection.name, sorted(collection.splits)) == (filed, splits)


def test_a_split_is_measured_as_the_description_of_the_same_judgements_says() -> None:
    pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    graded = ("nDCG@10", "MAP(rel=2)", "R(rel=2)@1000")
    for name in ("trec-dl-2019/judged", "trec-dl-2019"):
        (found,) = load_collection(f"ir_datasets:msmarco-passage/{name}").splits.values()
        assert (found.measures, found.queries, found.qrels.ir_datasets) == (graded, 43, f"msmarco-passage/{name}")
    (found,) = load_collection("ir_datasets:beir/scifact/test").splits.values()
    assert (found.remove_query, found.expected[0].scores["nDCG@10"]) == (True, 0.6789)
    (found,) = load_collection("ir_datasets:vaswani").splits.values()
    assert (found.measures, found.remove_query, found.expected) == (MEASURES, False, ())


def test_no_two_names_of_the_catalogue_are_filed_alike() -> None:
    registry = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed").registry
    filed = [folder_name(f"ir_datasets:{name}") for name in registry]
    assert len(filed) > 500
    assert len({name.lower() for name in filed} | set(descriptions())) == len(filed) + len(descriptions())
    assert all(check_name(name, "here") == name for name in filed)
    assert [spelling_of(name) for name in filed] == [f"ir_datasets:{name}" for name in registry]


def test_a_name_without_documents_or_an_unknown_one_is_answered_with_names() -> None:
    pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    with pytest.raises(LearnedSparseError, match=r"ir_datasets:beir: has no docs; name one of its parts: beir/arguana"):
        load_collection("ir_datasets:beir").documents()
    with pytest.raises(LearnedSparseError, match=r"zzzzzz: no such name; python -m .*collections --catalogue WORD"):
        load_collection("ir_datasets:zzzzzz")


def test_the_catalogue_steps_in_for_missing_files(alone: str, tmp_path: Path) -> None:
    text = f"""
name: mine
title: From the catalogue
corpus: {{files: [nowhere.tsv], ir_datasets: {alone}}}
splits:
  all:
    topics: {{ir_datasets: {alone}}}
    qrels: {{files: [nowhere.txt], ir_datasets: {alone}}}
    measures: [MRR@10]
"""
    collection = load_collection(write(tmp_path / "mine.yaml", text))
    assert next(collection.documents()) == Document("d1", "one")
    assert collection.queries("all") == [Query("q1", "first")]


def test_an_unknown_name_in_the_catalogue_is_answered_with_the_nearest_one() -> None:
    pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    with pytest.raises(
        LearnedSparseError, match=r"ir_datasets:beir/scifct: no such name; did you mean 'beir/scifact'\?"
    ):
        load_collection("ir_datasets:beir/scifct")


REGISTERED = """
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.collections.registered import registered_qrels, registered_queries
queries, qrels = registered_queries("dl19-passage"), registered_qrels("dl19-passage")
print(len(queries), queries[0], len(qrels), sum(map(len, qrels.values())))
for ask in (registered_queries, registered_qrels):
    for name in ("dl19-pasage", "beir-v1.0.0-nfcorpus-test"):
        try:
            ask(name)
        except LearnedSparseError as error:
            print(error)
"""


@pytest.mark.jvm
def test_registered_topics_and_judgements(shared_data: Path, tmp_path: Path, python: Python) -> None:
    """Pyserini looks into its cache below Java's ``user.home`` before it asks the network: a full one works offline."""
    cache = tmp_path / ".cache" / "pyserini" / "topics-and-qrels"
    cache.mkdir(parents=True)
    for file in (shared_data / "topics-and-qrels").glob("*.dl19-passage.txt"):
        shutil.copy(file, cache)
    offline = f"-Duser.home={tmp_path} -Dhttps.proxyHost=localhost -Dhttps.proxyPort=9"
    done = python("-c", REGISTERED, env={**os.environ, "JAVA_TOOL_OPTIONS": offline})
    found = [line for line in done.stdout.splitlines() if "Downloading" not in line]
    assert found[0] == "43 Query(id='19335', text='anthropological definition of environment') 43 9260", done.stderr
    assert found[1] == "topics 'dl19-pasage': not registered in Pyserini; did you mean 'dl19-passage'?"
    assert found[2].startswith("topics 'beir-v1.0.0-nfcorpus-test': Pyserini cannot fetch them (JavaException: ")
    assert found[3] == "judgements 'dl19-pasage': not registered in Pyserini; did you mean 'dl19-passage'?"
    assert found[4].endswith("without a network, use a file")
