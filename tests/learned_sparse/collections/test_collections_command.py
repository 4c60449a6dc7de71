"""The command that lists collections: local files, and how to get missing files."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from learned_sparse.collections.__main__ import main
from learned_sparse.collections.collection import DATA_VARIABLE
from learned_sparse.collections.descriptions import descriptions
from tests.catalogue_data import catalogued
from tests.toy_data import save_collection


@pytest.fixture(autouse=True)
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


def test_names_of_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    with catalogued() as name:
        described = yaml.safe_load(output(capsys, f"ir_datasets:{name}/test").partition("\nhow to")[0])
        assert (described["name"], list(described["splits"])) == ("ir_datasets--learned-sparse-test--tiny", ["test"])
        assert "https://ir-datasets.com/wapo.html#wapo/v2\n" in output(capsys, "ir_datasets:wapo/v2")
