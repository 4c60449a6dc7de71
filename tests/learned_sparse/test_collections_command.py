"""The list of collections: what is known, what is here, what was made of it, and how to get the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections import catalogue_cache
from learned_sparse.collections.__main__ import main
from learned_sparse.collections.catalogue_files import downloads
from learned_sparse.collections.description_files import DATA_VARIABLE, descriptions
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import write_json
from tests.catalogue_data import catalogued
from tests.toy_data import save_collection

LISTED = """
import contextlib, io, json, sys
from learned_sparse.collections.__main__ import main
with contextlib.redirect_stdout(io.StringIO()):
    for words in ([], ["--json"], ["scifact"], ["scifact", "--json"]):
        main(words)
print([name for name in json.loads(sys.argv[1]) if name in sys.modules])
"""


@pytest.fixture(autouse=True)
def places(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with SciFact's name and a collection without description; an empty cache of ir_datasets."""
    save_collection(tmp_path / "data" / "scifact", ["train", "test"])
    save_collection(tmp_path / "data" / "mine", ["test"])
    (tmp_path / "data" / "nothing").mkdir()
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def made(tmp_home: Path) -> Path:
    """Notes of things made of SciFact, and of a collection that is not known any more."""
    counts = {"counts": {"written": 5183}, "complete": True}
    write_json(tmp_home / "vectors" / "scifact" / "splade" / "manifest.json", counts)
    write_json(tmp_home / "vectors" / "scifact" / "owner" / "uhd" / "manifest.json", {"complete": False})
    write_json(tmp_home / "vectors" / "scifact" / ".splade.0.tmp" / "manifest.json", counts)
    write_json(tmp_home / "indexes" / "scifact" / "bm25" / "learned_sparse.json", {"index": {"documents": 5183}})
    write_json(tmp_home / "queries" / "scifact" / "test" / "splade" / "manifest.json", {**counts, "counts": {}})
    for name in ("scifact", "gone"):
        run = tmp_home / "runs" / name / "test" / "bm25.txt"
        run.parent.mkdir(parents=True)
        run.touch()
    return tmp_home


def shown(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *words: str | Path) -> Any:
    return json.loads(shown(capsys, *words, "--json"))


def test_all_that_ship_are_listed(capsys: pytest.CaptureFixture[str], made: Path, places: Path) -> None:
    lines = shown(capsys).splitlines()
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines[1 : 1 + len(descriptions())]}
    assert list(rows) == sorted(descriptions())
    counts = "5,183       train 809, test 300"
    assert rows["scifact"].startswith(counts)
    assert "nDCG@10 R@100 R@1000" in rows["scifact"]
    assert "  files, vectors: 2, indexes: 1, queries: 1, runs: 1  " in rows["scifact"]
    assert rows["scifact"].endswith("BEIR SciFact")
    assert "  made on the spot  " in rows["pydoc"]
    assert "  -  " in rows["nfcorpus"]
    assert "test, test200, ... (7 splits)" in rows["trec-car"]
    text = "\n".join(lines[1 + len(descriptions()) :])
    assert f"Files are looked for in {places / 'data'}.\n" in text
    assert f"--collection FOLDER:\n  {places / 'data' / 'mine'}\n\n" in text
    assert text.endswith(f"  gone: 1 in {made}")


def test_the_list_as_json_has_the_same(capsys: pytest.CaptureFixture[str], made: Path, places: Path) -> None:
    found = as_json(capsys)
    assert found["data"] == str(places / "data")
    assert found["folders"] == [str(places / "data" / "mine")]
    assert [thing["path"] for thing in found["others"]["gone"]] == [str(made / "runs" / "gone" / "test" / "bm25.txt")]
    assert [one["name"] for one in found["collections"]] == sorted(descriptions())
    scifact = next(one for one in found["collections"] if one["name"] == "scifact")
    assert (scifact["documents"], scifact["splits"]["test"]["queries"]) == (5183, 300)
    things = {(thing["kind"], thing["split"], thing["model"]): thing for thing in scifact["made"]}
    assert {key: (thing["texts"], thing["complete"]) for key, thing in things.items()} == {
        ("vectors", None, "splade"): (5183, True),
        ("vectors", None, "owner/uhd"): (None, False),
        ("indexes", None, "bm25"): (5183, True),
        ("queries", "test", "splade"): (None, True),
        ("runs", "test", "bm25"): (None, True),
    }


def test_one_that_is_here(capsys: pytest.CaptureFixture[str], made: Path, places: Path) -> None:
    text = shown(capsys, "scifact")
    assert text.startswith("BEIR SciFact\n\ndocuments: 5,183\n  here: ")
    assert f"here: {places / 'data' / 'scifact' / 'qrels' / 'test.tsv'} (0.0 MB)" in text
    assert "split train: 809 queries, 919 judgements; nDCG@10 R@100 R@1000" in text
    assert "Wadden et al. 2020" in text
    assert f"{made / 'vectors' / 'scifact' / 'owner' / 'uhd'} (incomplete: encode again with --resume)" in text
    assert text.endswith("to use it: --collection scifact\n")


def test_one_that_is_not_here_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shown(capsys, "nfcorpus")
    corpus = places / "data" / "nfcorpus" / "corpus.jsonl"
    assert f"  not here: {corpus}\n  ir_datasets:beir/nfcorpus\n" in text
    assert "made of it: nothing yet" in text
    _, _, way = text.partition("how to get the files:\n")
    assert f"by ir_datasets at first use, into {places / 'cache'}" in way
    assert "    python -m learned_sparse.collections ir_datasets:beir/nfcorpus/train\n" in way
    assert "or by Pyserini, what is registered there" in way
    assert f"    {corpus}\n" in way
    monkeypatch.setattr("learned_sparse.collections.listing.installed", lambda: False)
    assert "fetched, after pip install 'learned-sparse[data]', by ir_datasets" in shown(capsys, "nfcorpus")
    (places / "data" / "nfcorpus").mkdir()
    (places / "data" / "nfcorpus" / "corpus.jsonl.gz").touch()
    text = shown(capsys, "nfcorpus")
    assert f"documents: 3,633\n  here: {corpus}.gz" in text
    assert "how to get the rest:" in text
    assert f"    {corpus}\n" not in text


def test_another_data_folder_is_looked_at(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    assert "not here: elsewhere/scifact/corpus.jsonl" in shown(capsys, "scifact", "--data", "elsewhere")
    assert "Files are looked for in elsewhere, which is not there yet." in shown(capsys, "--data", "elsewhere")


def test_a_folder_and_one_without_judgements(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    folder = places / "data" / "mine"
    text = shown(capsys, folder)
    assert "split test: ? queries, ? judgements" in text
    assert text.endswith(f"to use it: --collection {folder}\n")
    (folder / "qrels" / "test.tsv").unlink()
    assert "no split: no queries with judgements" in shown(capsys, folder)


def test_a_name_of_the_catalogue(capsys: pytest.CaptureFixture[str], tmp_home: Path, places: Path) -> None:
    with catalogued() as name:
        filed = tmp_home / "vectors" / "ir_datasets--learned-sparse-test--tiny" / "splade"
        write_json(filed / "manifest.json", {"counts": {"written": 12}, "complete": True})
        found = as_json(capsys, f"ir_datasets:{name}/test")
        assert (found["name"], list(found["splits"])) == (filed.parent.name, ["test"])
        assert [thing["path"] for thing in found["made"]] == [str(filed)]
        assert found["downloads"] == []
        assert list(as_json(capsys, f"ir_datasets:{name}")["splits"]) == ["train", "test", "dev-small"]
        assert as_json(capsys, "--catalogue", "SPARSE-test")[f"{name}/dev/small"] == ["docs", "queries", "qrels"]
        assert f"ir_datasets:{name}            docs\n" in shown(capsys, "--catalogue", "sparse-test")


def test_the_files_of_a_name_of_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    text = shown(capsys, "ir_datasets:beir/scifact/test")
    assert "documents: 5,183\n" in text
    assert "/scifact.zip\n  with docs, queries, qrels, 2.8 MB, md5 5f7d1de60b170fc8027bb7898e2efca1\n  " in text
    text = shown(capsys, "ir_datasets:wapo/v2")
    assert "not to be had without more ado:\n  with docs" in text
    assert "  The Washington Post collection can be requested here" in text
    found = downloads("msmarco-passage/trec-dl-2019/judged")
    assert [file.kinds for file in found] == [("docs",), ("queries",), ("qrels",)]
    assert found[0].bytes == 1_057_717_952
    assert "agree" in (found[0].terms or "")
    assert found[1].path is None  # a small file that is not kept


def test_errors_name_the_way_out(capsys: pytest.CaptureFixture[str], places: Path) -> None:
    with pytest.raises(LearnedSparseError, match="did you mean 'scifact'"):
        main(["scifct"])
    with pytest.raises(LearnedSparseError, match=r"data: neither a BEIR .* give one inside it: .*mine, .*scifact"):
        main([str(places / "data")])
    with pytest.raises(LearnedSparseError, match="--catalogue lists names: give it without a NAME"):
        main(["scifact", "--catalogue"])
    pytest.importorskip("ir_datasets", reason="the extra 'data' is not installed")
    with pytest.raises(LearnedSparseError, match="no name in the catalogue has 'zzz' in it; --catalogue alone"):
        main(["--catalogue", "zzz"])


@pytest.mark.parametrize(
    ("file", "cached"),
    [
        ("beir/scifact/source.zip", {"beir/scifact", "beir/scifact/test"}),
        ("beir/scifact/docs.pklz4/bin", {"beir/scifact"}),
        ("beir/scifact/irds_version.txt", set()),
        ("beir/notes", {"beir/fever"}),
    ],
)
def test_what_is_in_the_cache(file: str, cached: set[str], places: Path) -> None:
    path = places / "cache" / file
    path.parent.mkdir(parents=True)
    path.write_text("text", encoding="utf-8")
    (places / "cache" / "beir" / "scifact").mkdir(exist_ok=True)
    asked = ["beir/scifact", "beir/scifact/test", "beir/fever", "msmarco-passage"]
    assert {name for name in asked if catalogue_cache.cached(name)} == cached


def test_listing_imports_nothing_heavy(python: Callable[..., Any]) -> None:
    heavy = ["torch", "transformers", "jnius", "pyserini", "ir_datasets", "scipy"]
    done = python("-c", LISTED, json.dumps(heavy))
    assert done.stdout == "[]\n", done.stderr


def test_the_standard_library_keeps_its_name(python: Callable[..., Any]) -> None:
    done = python("-c", "import learned_sparse.collections, collections; print(collections.deque([1]))")
    assert done.stdout == "deque([1])\n", done.stderr
    done = python("-m", "learned_sparse.collections", "pydoc")
    assert done.stdout.startswith("Docstrings of the running Python"), done.stderr
    done = python("-m", "learned_sparse.collections", "nowhere")
    assert (done.returncode, done.stderr.startswith("error: collection 'nowhere': no such")) == (2, True)
