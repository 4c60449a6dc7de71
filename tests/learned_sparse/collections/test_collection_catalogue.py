"""Collections by name: the ir_datasets catalogue, failed downloads, and topics registered in Pyserini."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections.catalogue import folder_name, name_of_folder
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.descriptions import MEASURES, descriptions
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import is_name, locked
from learned_sparse.core.records import Document, Query
from tests.catalogue_data import catalogued
from tests.learned_sparse.collections.written import write
from tests.toy_data import TEXTS

Python = Callable[..., subprocess.CompletedProcess[str]]


def test_without_ir_datasets_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(LearnedSparseError, match=r"pip install 'learned-sparse\[data\]'[\s\S]*LEARNED_SPARSE_DATA"):
        load_collection("scifact", data=tmp_path).documents()
    with pytest.raises(LearnedSparseError, match="ir_datasets is not installed"):
        load_collection("ir_datasets:vaswani")


@pytest.fixture(name="ir_datasets")
def installed_ir_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The module ``ir_datasets`` with an empty cache folder."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "cache"))
    module: types.ModuleType = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    return module


@pytest.fixture
def register(ir_datasets: Any) -> Iterator[Callable[[Any], str]]:
    """A function that registers a data set and returns its name."""
    name = "learned-sparse-test/alone"

    def add(dataset: Any) -> str:
        ir_datasets.registry.register(name, dataset)
        return name

    yield add
    ir_datasets.registry._registered.pop(name, None)


@pytest.fixture
def data_set(tmp_path: Path, ir_datasets: Any, register: Callable[[Any], str]) -> str:
    """The name of a data set without parts, made of local files."""
    return register(
        ir_datasets.create_dataset(
            docs_tsv=str(write(tmp_path / "docs.tsv", "d1\tone\nd2\t \nd1\tagain\n")),
            queries_tsv=str(write(tmp_path / "queries.tsv", "q1\tfirst\nq1\trepeated\n")),
            qrels_trec=str(write(tmp_path / "qrels.txt", "q1 0 d1 1\n")),
        )
    )


def test_a_data_set_of_the_catalogue(data_set: str) -> None:
    collection = load_collection(f"ir_datasets:{data_set}")
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
def test_registered_topics_and_judgements(shared_data: Path, tmp_path: Path, python: Python) -> None:
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
