"""Descriptions of collections: those shipped, names that are valid folders, and the command that lists them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from eval.measures import parse_measure
from learned_sparse.collections.__main__ import main
from learned_sparse.collections.collection import DATA_VARIABLE, load_collection
from learned_sparse.collections.descriptions import descriptions
from learned_sparse.core.errors import LearnedSparseError
from tests.catalogue_data import catalogued
from tests.toy_data import save_collection

NAMES = list(descriptions())
SEGMENTS = "msmarco-v1-doc-segmented"
"""Documents alone."""
BEIR = [name for name in NAMES if load_collection(name).description.title.startswith("BEIR ")]


def test_all_descriptions_are_shipped() -> None:
    assert (len(NAMES), len(BEIR)) == (35, 29)
    others = {"msmarco-v1-passage", "msmarco-v1-doc", SEGMENTS, "msmarco-mini", "trec-car", "pydoc"}
    assert others == set(NAMES) - set(BEIR)
    assert len(set(descriptions().values())) == 35 - 11  # one file for the twelve forums of CQADupStack


@pytest.mark.parametrize("name", NAMES)
def test_every_description_loads_and_is_consistent(name: str) -> None:
    collection = load_collection(name)
    assert collection.name == name
    assert bool(collection.splits) == (name != SEGMENTS)
    for split in collection.splits.values():
        assert split.measures
        for measure in (*split.measures, *(key for expected in split.expected for key in expected.scores)):
            parse_measure(measure)
        assert all(0 < score < 1 for expected in split.expected for score in expected.scores.values())
        assert all(expected.system and expected.source for expected in split.expected)
        assert split.remove_query is (name in BEIR)
        for source in (split.topics, split.qrels, collection.description.corpus):
            assert source.files or source.embedded or source.ir_datasets
    if name in BEIR:
        test = collection.split("test")
        assert test.measures == ("nDCG@10", "R@100", "R@1000")
        assert set(test.expected[0].scores) == set(test.measures)
        assert test.qrels.registered == test.topics.registered == f"beir-v1.0.0-{name}-test"


@pytest.mark.parametrize("name", NAMES)
def test_names_in_the_catalogue_exist_and_agree_in_size(name: str) -> None:
    registry = pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed").registry
    description = load_collection(name).description
    if description.corpus.ir_datasets:
        metadata = registry[description.corpus.ir_datasets].metadata()
        assert metadata["docs"]["count"] == description.documents
    for split in description.splits.values():
        for source, kind, count in ((split.topics, "queries", split.queries), (split.qrels, "qrels", split.judgements)):
            if source.ir_datasets:
                expected = registry[source.ir_datasets].metadata().get(kind, {}).get("count")
                assert expected is None or count in {None, expected}


def test_one_file_describes_a_collection_for_each_key() -> None:
    description = load_collection("cqadupstack-gis").description
    assert description.corpus.files == ("cqadupstack/gis/corpus.jsonl",)
    assert description.splits["test"].expected[0].scores == {"nDCG@10": 0.2901, "R@100": 0.6119, "R@1000": 0.8174}
    with pytest.raises(LearnedSparseError, match=r"collection 'cqadupstack': no such file, .*; did you mean"):
        load_collection("cqadupstack")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "c:", "a.", "what?", "a\nb"])
def test_a_name_that_is_not_a_valid_folder_is_refused(name: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(f"name: {name!r}\ntitle: T\ncorpus: {{files: [a.tsv]}}\nsplits: {{}}\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"mine\.yaml: name: the name .* cannot be"):
        load_collection(file)


@pytest.fixture
def data(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with SciFact and a collection without description; the cache of ir_datasets is empty."""
    folder = tmp_path / "data"
    save_collection(folder / "scifact", ["train", "test"])
    save_collection(folder / "mine", ["test"])
    (folder / "nothing").mkdir()
    monkeypatch.setenv(DATA_VARIABLE, str(folder))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "cache"))
    return folder


def output(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_all_shipped_collections_are_listed(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    lines = output(capsys).splitlines()
    rows = {line.split()[0]: line for line in lines[1 : 1 + len(descriptions())]}
    assert list(rows) == sorted(descriptions())
    for name, files in (("scifact", "here"), ("pydoc", "generated at first use"), ("nfcorpus", "0 of 7 here")):
        assert f"  {files}  " in rows[name]
    assert lines[-1] == f"  {data / 'mine'}"
    assert "Files are read from elsewhere, which does not exist." in output(capsys, "--data", "elsewhere")


@pytest.mark.parametrize("name", ["scifact", "mine"])
def test_a_collection_with_all_files(name: str, capsys: pytest.CaptureFixture[str], data: Path) -> None:
    spelling = name if name == "scifact" else str(data / name)
    described, _, way_on = output(capsys, spelling).rpartition("\n\n")
    content = yaml.safe_load(described)
    assert (content["collection"], content["name"]) == (spelling, name)
    assert content["splits"]["test"]["qrels"]["state"] == f"here: {data / name / 'qrels' / 'test.tsv'}"
    assert way_on == f"to use it: --collection {spelling}\n"


def test_missing_files_and_how_to_get_them(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    corpus = data / "nfcorpus" / "corpus.jsonl"
    instructions = output(capsys, "nfcorpus").partition("how to get the missing files:\n")[2]
    for part in (
        "https://ir-datasets.com/beir.html#beir/nfcorpus\n",
        "Pyserini downloads the topics",
        f"    {corpus}\n",
    ):
        assert part in instructions
    corpus.parent.mkdir()
    corpus.with_name("corpus.jsonl.gz").touch()
    text = output(capsys, "nfcorpus")
    assert f"state: 'here: {corpus}.gz'\n" in text
    assert f"    {corpus}\n" not in text


def test_names_of_the_catalogue(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    with catalogued() as name:
        described = yaml.safe_load(output(capsys, f"ir_datasets:{name}/test").partition("\nhow to")[0])
        assert (described["name"], list(described["splits"])) == ("ir_datasets--learned-sparse-test--tiny", ["test"])
        assert "https://ir-datasets.com/wapo.html#wapo/v2\n" in output(capsys, "ir_datasets:wapo/v2")
