"""The small steps of leaderboards: plain files, expanded text, pools, word pieces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from encoders.encoding.loading import load_encoder
from eval.reproduce.prepare import main
from learned_sparse.collections.collection import load_collection, split_names
from learned_sparse.collections.documents import predicted_queries
from learned_sparse.collections.trec import read_run, write_run
from learned_sparse.core.errors import LearnedSparseError
from tests.tiny_models import TEXTS
from tests.toy_data import save_beir


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    documents = {"d1": "a wing\nof drag", "d2": "heat", "d3": "flow"}
    queries = {"q1": "wing  drag", "q2": "heat", "q3": "not judged"}
    judged = [("q1", "d1", 2), ("q2", "d2", -1), ("q2", "d3", 1)]
    save_beir(tmp_path / "toy", documents, queries, {"test": judged}, {"d2": "warm"})
    return tmp_path / "toy"


def test_expanded_text_is_one_text(collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["expand", "--collection", str(collection), "--output", str(tmp_path / "x")]) == 0
    lines = (tmp_path / "x" / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["contents"] for line in lines] == ["a wing\nof drag", "heat warm", "flow"]
    assert "3 documents, 1 of them expanded" in capsys.readouterr().out
    (tmp_path / "predicted.tsv").write_text("d1\t\nd2\twarm\nd3\tstream\td\n", "utf-8")
    predicted = ["--expanded", str(tmp_path / "predicted.tsv")]
    assert main(["expand", "--collection", str(collection), *predicted, "--output", str(tmp_path / "y")]) == 0
    lines = (tmp_path / "y" / "documents.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["contents"] for line in lines] == ["a wing\nof drag", "heat warm", "flow stream d"]


def test_new_terms_are_not_in_the_text_and_do_not_repeat(collection: Path, tmp_path: Path) -> None:
    queries = {"d1": ["what lifts a Wing", "what is drag?", "lifts a wing"], "d2": ["warm"], "d3": []}
    lines = [json.dumps({"id": name, "predicted_queries": of_document}) for name, of_document in queries.items()]
    (tmp_path / "predicted.jsonl").write_text("\n".join(lines), "utf-8")
    words = ["--collection", str(collection), "--expanded", str(tmp_path / "predicted.jsonl")]
    assert main(["new-terms", *words, "--output", str(tmp_path / "new")]) == 0
    assert dict(predicted_queries(tmp_path / "new")) == {"d1": "what lifts is", "d2": "warm", "d3": ""}
    documents = load_collection(str(collection)).documents(expanded=tmp_path / "new")
    assert [document.expanded for document in documents] == ["what lifts is", "warm", ""]


def test_a_pool_holds_relevant_and_retrieved_documents(collection: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.txt"
    write_run(run, {"q1": [("d2", 2.0), ("d3", 1.0)]}, "x")
    words = ["--collection", str(collection), "--split", "test", "--run", str(run), "--depth", "1"]
    assert main(["sample", *words, "--output", str(tmp_path / "pool")]) == 0
    pool = load_collection(tmp_path / "pool")
    assert {query.id for query in pool.queries("test")} == {"q1", "q2"}
    assert [document.id for document in pool.documents()] == ["d1", "d2", "d3"]  # relevant, retrieved, relevant
    assert [document.expanded for document in pool.documents()] == ["", "warm", ""]
    assert split_names(str(pool.root), "test") == ("pool:test", "toy:test")
    (collection / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td3\t1\nq1\td1\t0\n", "utf-8")
    assert main(["sample", *words, "--output", str(tmp_path / "small")]) == 0
    small = load_collection(tmp_path / "small")
    assert [document.id for document in small.documents()] == ["d2", "d3"]
    assert small.qrels("test") == {"q1": {"d3": 1}}
    assert [query.id for query in small.queries("test")] == ["q1"]


@pytest.mark.parametrize("name", ["arguana", "toy"])
def test_a_pool_has_the_settings_of_its_split(name: str, collection: Path, tmp_path: Path) -> None:
    """BEIR removes the document of the query itself in its own data sets, also where they are given by path."""
    (tmp_path / "beir").mkdir()
    folder = collection.rename(tmp_path / "beir" / name)
    run = tmp_path / "run.txt"
    write_run(run, {"q1": [("d2", 2.0)]}, "x")
    whole = load_collection(folder).split("test")
    words = ["--collection", str(folder), "--split", "test", "--run", str(run), "--depth", "1"]
    assert main(["sample", *words, "--output", str(tmp_path / "pool")]) == 0
    pool = load_collection(tmp_path / "pool")
    assert whole.remove_query is pool.split("test").remove_query is (name == "arguana")
    assert pool.split("test").measures == whole.measures


def sample(collection: Path, output: Path, *words: str) -> list[str]:
    """Ids of the documents of a sample, which has one query."""
    where = ["--collection", str(collection), "--split", "test", "--queries", "1"]
    assert main(["sample", *where, *words, "--output", str(output)]) == 0
    drawn = load_collection(str(output))
    (query,) = drawn.queries("test")
    assert drawn.qrels("test")[query.id].items() <= load_collection(str(collection)).qrels("test")[query.id].items()
    documents = {document.id: document for document in drawn.documents()}
    assert {"q1": "d1", "q2": "d3"}[query.id] in documents
    assert "d2" not in documents or documents["d2"].expanded == "warm"
    return [query.id, *documents]


def test_a_sample_is_drawn_by_its_seed(collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draws = [sample(collection, tmp_path / str(s), "--documents", "2", "--seed", str(s)) for s in range(12)]
    assert {len(draw) for draw in draws} == {3}  # a query and two documents
    assert len({tuple(draw) for draw in draws}) > 2
    assert sample(collection, tmp_path / "again", "--documents", "2", "--seed", "3") == draws[3]
    assert sample(collection, tmp_path / "whole", "--seed", "3")[1:] == ["d1", "d2", "d3"]
    run = tmp_path / "run.txt"
    write_run(run, {"q1": [("d2", 2.0), ("d3", 1.0)], "q2": [("d2", 2.0)]}, "x")
    top = ["--run", str(run), "--depth", "1"]
    assert "d2" in sample(collection, tmp_path / "pool", *top)
    assert len(sample(collection, tmp_path / "pool and one", *top, "--documents", "3")) == 4
    for words, message in (
        (["--documents", "4"], "toy: a sample of 4 documents"),
        ([*top, "--documents", "1"], "toy: a sample of 1 documents; give at least 2"),
        (["--queries", "3"], "toy, test: 2 queries have relevant documents; sample fewer"),
        (["--run", str(run)], "--run and --depth belong together"),
    ):
        with pytest.raises(LearnedSparseError, match=message):
            sample(collection, tmp_path / "refused", *words)


@pytest.mark.jvm
def test_the_best_run_of_each_query(collection: Path, tmp_path: Path) -> None:
    runs = {
        "a": {"q1": [("d1", 2.0)], "q2": [("d1", 2.0), ("d3", 1.0)]},
        "b": {"q1": [("d2", 2.0)], "q2": [("d3", 1.0)]},
    }
    for name, run in runs.items():
        write_run(tmp_path / f"{name}.txt", run)
    files = [str(tmp_path / f"{name}.txt") for name in runs]
    where = ["--collection", str(collection), "--split", "test", "--measure", "MRR@10", "--run", *files]
    assert main(["best", *where, "--output", str(tmp_path / "best.txt")]) == 0
    assert read_run(tmp_path / "best.txt") == {"q1": runs["a"]["q1"], "q2": runs["b"]["q2"]}


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
    assert batch.truncated == 0
