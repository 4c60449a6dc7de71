"""Documents and queries without text through every command: kept, counted, matched by nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from encoders.training import Negatives, Source
from encoders.training.data.examples import JudgedExamples
from encoders.training.data.files import ExampleFile
from encoders.training.data.sources import load_source
from eval.dimensions import main as dimensions
from eval.dimensions import read_encoded
from eval.evaluate import main as evaluate
from eval.reproduce import prepare
from learned_sparse.collections.trec import read_run
from learned_sparse.core.records import SparseBatch
from learned_sparse.encode import __main__ as encode
from learned_sparse.index import __main__ as index
from learned_sparse.index.note import IndexNote
from learned_sparse.inspect import __main__ as inspect
from learned_sparse.jsonvector.__main__ import main as jsonvector
from learned_sparse.jsonvector.manifest import Manifest
from learned_sparse.jsonvector.queries import read_topics
from learned_sparse.jsonvector.reader import read_vectors, vector_files
from learned_sparse.search import __main__ as search
from tests.fake_encoder import FakeEncoder, install_loader
from tests.toy_data import save_beir

DOCUMENTS = {"d1": "w1 w2", "d2": "", "d3": "w1 w3", "d4": " \n\t"}
QUERIES = {"q1": "w1", "q2": "", "q3": "w3"}
JUDGED = [("q1", "d1", 1), ("q2", "d3", 1), ("q3", "d3", 1), ("q3", "d2", 1)]


class WithSpecialToken(FakeEncoder):
    """Gives every text a weight for the same term, as a model does for [CLS]."""

    def encode(self, texts: Sequence[str]) -> SparseBatch:
        return super().encode([f"[CLS] {text}" for text in texts])


@pytest.fixture
def collection(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Folder of a collection; the encoder of every checkpoint is ``WithSpecialToken``."""
    install_loader(monkeypatch, lambda _, side, **settings: WithSpecialToken(side, **settings))
    save_beir(tmp_path / "toy", DOCUMENTS, QUERIES, {"test": JUDGED})
    return str(tmp_path / "toy")


@pytest.mark.parametrize("options", [[], ["--segment-length", "4"]])
def test_encoded_documents(
    collection: str,
    tmp_home: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        FakeEncoder, "word_spans", lambda _, texts: [[(0, len(t), 1)] if t.strip() else [] for t in texts]
    )
    assert encode.main(["--model", "m", "--checkpoint", "c", "--collection", collection, *options]) == 0
    folder = tmp_home / "vectors" / "toy" / "m"
    counts = Manifest.load(folder).counts
    assert (counts.read, counts.written, counts.empty_texts, counts.empty_vectors) == (4, 4, 2, 2)
    assert [bool(vector) for _, vector in read_vectors(folder)] == [True, False, True, False]
    assert "  2 without text" in capsys.readouterr().out
    assert [len(vector) for _, vector in read_encoded(vector_files(folder))][1::2] == [0, 0]


@pytest.mark.jvm
def test_index_search_and_measures(
    collection: str, tmp_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on = ["--collection", collection]
    for extra in ([], ["--queries"]):
        encode.main(["--model", "m", "--checkpoint", "c", *on, *extra])
    assert read_topics(tmp_home / "queries" / "toy" / "test" / "m")["q2"] == {}
    index.main(["--model", "m", *on])
    assert IndexNote.load(tmp_home / "indexes" / "toy" / "m").facts["documents"] == 4
    for backend in ("lucene", "exact"):
        search.main(["--model", "m", *on, "--backend", backend, "--output", str(tmp_path / backend)])
        assert "3 queries (1 without text), 1 without a hit" in capsys.readouterr().out
    run = read_run(tmp_path / "lucene")
    assert run == read_run(tmp_path / "exact")
    assert {query: {document for document, _ in hits} for query, hits in run.items()} == {
        "q1": {"d1", "d3"},
        "q3": {"d1", "d3"},
    }
    evaluate([*on, "--run", str(tmp_path / "lucene"), "--measures", "R@10", "--per-query", "--json"])
    result = json.loads(capsys.readouterr().out)["runs"][0]
    assert result["per_query"]["R@10"] == {"q1": 1.0, "q2": 0.0, "q3": 0.5}
    assert result["scores"]["R@10"] == 0.5
    vectors = tmp_home / "vectors" / "toy" / "m"
    jsonvector(["prune", "--vectors", str(vectors), "--output", str(tmp_path / "pruned"), "--top-dimensions", "1"])
    assert Manifest.load(tmp_path / "pruned").counts.empty_texts == 2
    capsys.readouterr()
    dimensions([str(vectors), "--json"])
    lengths = json.loads(capsys.readouterr().out)["tables"][1]
    assert dict(zip(lengths["columns"], lengths["rows"][0], strict=True))["empty"] == 2
    inspect.main(["--index", str(tmp_home / "indexes" / "toy" / "m"), "--document", "d2"])
    assert "the text is empty" in capsys.readouterr().out


@pytest.mark.jvm
def test_bm25(
    collection: str, tmp_home: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "learned_sparse")
    index.main(["--bm25", "--collection", collection])
    assert "2 documents of plain text" in capsys.readouterr().out
    assert "2 documents without text: not in the index" in caplog.messages
    search.main(["--bm25", "--collection", collection])
    assert sorted(read_run(tmp_home / "runs" / "toy" / "test" / "bm25.txt")) == ["q1", "q3"]


def test_training_leaves_out_judgements_without_text(collection: str, caplog: pytest.LogCaptureFixture) -> None:
    loaded = load_source(Source(collection=collection, split="test"), Negatives(kind="none", per_query=1))
    assert isinstance(loaded.examples, JudgedExamples)
    assert loaded.examples.positives == {"q1": ["d1"], "q3": ["d3"]}
    assert f"data: {collection}:test: left out 2 judgements whose query or document has no text" in caplog.messages
    examples = load_source(Source(collection=collection, split="test"), Negatives(kind="self", per_query=3)).examples
    drawn = {text for seed in range(20) for text in examples.get(0, np.random.default_rng(seed)).negatives}
    assert drawn == {"w1 w3"}


@pytest.mark.parametrize("ids", [False, True])
def test_triples_without_text_are_left_out(
    collection: str, tmp_path: Path, ids: bool, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "triples.tsv"
    lines = [("q1", "d1", "d3"), ("q1", "d2", "d1"), ("q1", "d1", "d4"), ("q2", "d1", "d3")]
    texts = {**DOCUMENTS, **QUERIES, "d4": " "}
    path.write_text("".join("\t".join(line if ids else map(texts.__getitem__, line)) + "\n" for line in lines))
    source = Source(triples=path, collection=collection, split="test") if ids else Source(triples=path)
    examples = load_source(source, Negatives()).examples
    assert isinstance(examples, ExampleFile)
    assert len(examples) == 1
    assert examples.get(0, np.random.default_rng(0)).positive == "w1 w2"
    assert f"{path}: left out 3 triples with an empty text" in caplog.messages


def test_files_for_stock_pyserini(collection: str, tmp_path: Path) -> None:
    """Stock Pyserini cannot read a topic without text."""
    (warning,) = prepare.export(collection, "test", tmp_path / "out", documents=True)
    assert warning.startswith("1 queries have no text and are not in topics.tsv")
    assert (tmp_path / "out" / "topics.tsv").read_text() == "q1\tw1\nq3\tw3\n"
    assert len((tmp_path / "out" / "documents" / "documents.jsonl").read_text().splitlines()) == 4
