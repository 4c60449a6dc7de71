"""The command that lists collections: local files, output folders, and how to get missing files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections.__main__ import main
from learned_sparse.collections.collection import DATA_VARIABLE
from learned_sparse.collections.descriptions import descriptions
from learned_sparse.core import LearnedSparseError
from tests.catalogue_data import catalogued
from tests.toy_data import save_collection

LISTED = """
import contextlib, io, json, sys
from learned_sparse.collections.__main__ import main
with contextlib.redirect_stdout(io.StringIO()):
    for words in ([], ["--json"]):
        main(words)
print([name for name in json.loads(sys.argv[1]) if name in sys.modules])
"""


@pytest.fixture(autouse=True)
def data(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with SciFact and a collection without description; the cache of ir_datasets is empty."""
    save_collection(tmp_path / "data" / "scifact", ["train", "test"])
    save_collection(tmp_path / "data" / "mine", ["test"])
    (tmp_path / "data" / "nothing").mkdir()
    (tmp_home / "vectors" / "scifact" / "splade").mkdir(parents=True)
    (tmp_home / "runs" / "scifact" / "test").mkdir(parents=True)
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "cache"))
    return tmp_path


def output(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Any:
    return json.loads(output(capsys, *words, "--json"))


def test_all_shipped_collections_are_listed(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    lines = output(capsys).splitlines()
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1 : 1 + len(descriptions())]}
    assert list(rows) == sorted(descriptions())
    assert rows["scifact"].startswith("5,183       train 809, test 300")
    assert "nDCG@10 R@100 R@1000" in rows["scifact"]
    assert "  files, vectors, runs  " in rows["scifact"]
    assert rows["scifact"].endswith("BEIR SciFact")
    assert "  generated  " in rows["pydoc"]
    assert "  -  " in rows["nfcorpus"]
    assert "test, test200, ... (7 splits)" in rows["trec-car"]
    text = "\n".join(lines[1 + len(descriptions()) :])
    assert f"Files are read from {data / 'data'}.\n" in text
    assert text.endswith(f"--collection FOLDER:\n  {data / 'data' / 'mine'}")


def test_the_list_as_json(capsys: pytest.CaptureFixture[str], data: Path, tmp_home: Path) -> None:
    overview = as_json(capsys)
    assert overview["data"] == str(data / "data")
    assert overview["folders"] == [str(data / "data" / "mine")]
    assert [collection["name"] for collection in overview["collections"]] == sorted(descriptions())
    scifact = next(collection for collection in overview["collections"] if collection["name"] == "scifact")
    assert (scifact["documents"], scifact["splits"]["test"]["queries"]) == (5183, 300)
    assert scifact["corpus"]["here"] == str(data / "data" / "scifact" / "corpus.jsonl")
    assert scifact["made"] == [str(tmp_home / "vectors" / "scifact"), str(tmp_home / "runs" / "scifact")]


def test_a_collection_with_all_files(capsys: pytest.CaptureFixture[str], data: Path, tmp_home: Path) -> None:
    text = output(capsys, "scifact")
    assert text.startswith("BEIR SciFact\n\ndocuments: 5,183\n  here: ")
    assert f"here: {data / 'data' / 'scifact' / 'qrels' / 'test.tsv'} (0.0 MB)" in text
    assert "split train: 809 queries, 919 judgements; nDCG@10 R@100 R@1000" in text
    assert "Wadden et al. 2020" in text
    assert f"vectors, indexes and runs of it:\n  {tmp_home / 'vectors' / 'scifact'}\n" in text
    assert text.endswith("to use it: --collection scifact\n")


def test_missing_files_and_how_to_get_them(
    capsys: pytest.CaptureFixture[str], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    text = output(capsys, "nfcorpus")
    corpus = data / "data" / "nfcorpus" / "corpus.jsonl"
    assert f"  missing: {corpus}\n  ir_datasets:beir/nfcorpus\n" in text
    _, _, instructions = text.partition("how to get the missing files:\n")
    assert f"  ir_datasets downloads them at first use into {data / 'cache'}\n    https://" in instructions
    assert "/nfcorpus.zip (2.4 MB)\n      without a network, put it at " in instructions
    assert "Pyserini downloads the topics and judgements registered there" in instructions
    assert f"    {corpus}\n" in instructions
    (data / "data" / "nfcorpus").mkdir()
    (data / "data" / "nfcorpus" / "corpus.jsonl.gz").touch()
    text = output(capsys, "nfcorpus")
    assert f"documents: 3,633\n  here: {corpus}.gz" in text
    assert f"    {corpus}\n" not in text
    monkeypatch.setattr("learned_sparse.collections.__main__._installed", lambda: False)
    assert "  after pip install 'learned-sparse[data]', ir_datasets downloads" in output(capsys, "nfcorpus")


def test_another_data_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert "missing: elsewhere/scifact/corpus.jsonl" in output(capsys, "scifact", "--data", "elsewhere")
    assert "Files are read from elsewhere, which does not exist." in output(capsys, "--data", "elsewhere")


def test_a_folder_with_and_without_judgements(capsys: pytest.CaptureFixture[str], data: Path) -> None:
    folder = data / "data" / "mine"
    text = output(capsys, folder)
    assert "split test: ? queries, ? judgements" in text
    assert text.endswith(f"to use it: --collection {folder}\n")
    (folder / "qrels" / "test.tsv").unlink()
    assert "no split: no queries with judgements" in output(capsys, folder)


def test_names_of_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    with catalogued() as name:
        described = as_json(capsys, f"ir_datasets:{name}/test")
        assert (described["name"], list(described["splits"])) == ("ir_datasets--learned-sparse-test--tiny", ["test"])
        assert described["downloads"] == []
        assert list(as_json(capsys, f"ir_datasets:{name}")["splits"]) == ["train", "test", "dev-small"]
        assert as_json(capsys, "--catalogue", "SPARSE-test")[f"{name}/dev/small"] == ["docs", "queries", "qrels"]
        assert f"ir_datasets:{name}            docs\n" in output(capsys, "--catalogue", "sparse-test")
        text = output(capsys, "ir_datasets:wapo/v2")
        assert "    no download; see the instructions\n      without a network, put it at " in text
        assert "      The Washington Post collection can be requested here" in text


def test_errors_name_the_way_out(data: Path) -> None:
    with pytest.raises(LearnedSparseError, match="did you mean 'scifact'"):
        main(["scifct"])
    with pytest.raises(LearnedSparseError, match=r"data: neither a BEIR .* use one inside it: .*mine, .*scifact"):
        main([str(data / "data")])
    with pytest.raises(LearnedSparseError, match="--catalogue lists names; omit NAME"):
        main(["scifact", "--catalogue"])
    pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    with pytest.raises(LearnedSparseError, match="no name in the catalogue contains 'zzz'; --catalogue alone"):
        main(["--catalogue", "zzz"])


def test_listing_imports_nothing_heavy(python: Callable[..., Any]) -> None:
    heavy = ["torch", "transformers", "jnius", "pyserini", "ir_datasets", "scipy"]
    done = python("-c", LISTED, json.dumps(heavy))
    assert done.stdout == "[]\n", done.stderr


def test_the_command_by_its_name(python: Callable[..., Any]) -> None:
    done = python("-m", "learned_sparse.collections", "pydoc")
    assert done.stdout.startswith("Docstrings of the running Python"), done.stderr
    done = python("-m", "learned_sparse.collections", "nowhere")
    assert (done.returncode, done.stderr.startswith("error: collection 'nowhere': no such")) == (2, True)
