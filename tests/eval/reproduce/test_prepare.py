"""The small steps of leaderboards: plain files, expanded text, pools, word pieces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from encoders.encoding import load_encoder
from eval.reproduce import pooled
from eval.reproduce.prepare import main
from learned_sparse.collections.collection import load_collection, split_names
from learned_sparse.collections.trec import write_run
from tests.tiny_models import TEXTS
from tests.toy_data import save_beir


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    documents = {"d1": "a wing\nof drag", "d2": "heat", "d3": "flow"}
    queries = {"q1": "wing  drag", "q2": "heat", "q3": "not judged"}
    judged = [("q1", "d1", 2), ("q2", "d2", -1), ("q2", "d3", 1)]
    save_beir(tmp_path / "toy", documents, queries, {"test": judged}, {"d2": "warm"})
    return tmp_path / "toy"


def test_plain_files_of_a_collection(collection: Path, tmp_path: Path) -> None:
    output = tmp_path / "plain"
    arguments = ["export", "--collection", str(collection), "--split", "test", "--output", str(output)]
    assert main(arguments) == 0
    assert (output / "topics.tsv").read_text(encoding="utf-8") == "q1\twing drag\nq2\theat\n"
    assert (output / "qrels.txt").read_text(encoding="utf-8") == "q1 0 d1 2\nq2 0 d2 0\nq2 0 d3 1\n"
    assert not (output / "documents").exists()
    assert main([*arguments, "--documents"]) == 0
    lines = (output / "documents" / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0]) == {"id": "d1", "contents": "a wing\nof drag"}


def test_expanded_text_is_one_text(collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["expand", "--input", str(collection / "corpus.jsonl"), "--output", str(tmp_path / "x")]) == 0
    lines = (tmp_path / "x" / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["contents"] for line in lines] == ["a wing\nof drag", "heat warm", "flow"]
    assert "3 documents, 1 of them expanded" in capsys.readouterr().out


def test_a_pool_holds_relevant_and_retrieved_documents(
    collection: Path, tmp_path: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run.txt"
    write_run(run, {"q1": [("d2", 2.0), ("d3", 1.0)]}, "x")
    words = ["--collection", str(collection), "--split", "test", "--run", str(run), "--depth", "1"]
    assert main(["pool", *words]) == 0
    pool = load_collection(capsys.readouterr().out.strip())
    assert pool.name == "toy-test-pool-1"
    assert [document.id for document in pool.documents()] == ["d1", "d2", "d3"]  # relevant, retrieved, relevant
    assert [document.expanded for document in pool.documents()] == ["", "warm", ""]
    assert split_names(str(pool.root), "test") == ("toy-test-pool-1:test", "toy:test")
    (collection / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td3\t1\nq1\td1\t0\n", "utf-8")
    small = load_collection(str(pooled(str(collection), "toy", "test", run, 1)))
    assert [document.id for document in small.documents()] == ["d2", "d3"]
    assert small.qrels("test") == {"q1": {"d3": 1}}
    assert [query.id for query in small.queries("test")] == ["q1"]


@pytest.mark.parametrize("name", ["arguana", "toy"])
def test_a_pool_has_the_settings_of_its_split(name: str, collection: Path, tmp_path: Path, tmp_home: Path) -> None:
    """BEIR removes the document of the query itself in its own data sets, also where they are given by path."""
    (tmp_path / "beir").mkdir()
    folder = collection.rename(tmp_path / "beir" / name)
    run = tmp_path / "run.txt"
    write_run(run, {"q1": [("d2", 2.0)]}, "x")
    whole = load_collection(folder).split("test")
    pool = load_collection(pooled(str(folder), name, "test", run, 1))
    assert whole.remove_query is pool.split("test").remove_query is (name == "arguana")
    assert pool.split("test").measures == whole.measures


def test_word_pieces_are_counted_in_whole_texts(tiny_bert: Path, tmp_path: Path) -> None:
    output = tmp_path / "pieces"
    assert main(["word-pieces", "--tokenizer", str(tiny_bert), "--output", str(output)]) == 0
    encoder = load_encoder(str(output), "document")
    batch = encoder.encode([*TEXTS, "wing drag " * 2000])
    assert batch.row(5) == {"wing": 1}
    assert batch.row(2) == {}  # an empty text has no pieces, because special tokens are not counted
    assert batch.row(0)["."] == 1
    assert batch.row(len(TEXTS)) == {"wing": 2000, "drag": 2000}
    assert encoder.description["scoring"] == "bm25"
    assert encoder.truncated == 0
