"""Real judgements and a published score, with this package's collections, BM25 and evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.measures import evaluate
from learned_sparse.collections.collection import load_collection
from learned_sparse.collections.trec import read_qrels
from learned_sparse.index.build import build_bm25_index
from learned_sparse.lucene.searchers import search_bm25

pytestmark = pytest.mark.jvm

ANSERINI_BM25_FLAT = 0.6789
"""nDCG@10 on SciFact in Pyserini's reproduction matrix (beir.yaml, bm25-flat)."""


def test_bm25_on_scifact_scores_as_published(shared_data: Path, tmp_path: Path) -> None:
    collection = load_collection(shared_data / "scifact")
    split = collection.split("test")
    assert "nDCG@10" in split.measures
    assert build_bm25_index(collection.documents(), tmp_path / "index") == 5183
    run = search_bm25(tmp_path / "index", collection.queries("test"), k=1000)
    scores = evaluate(run, collection.qrels("test"), split.measures, remove_query=True)
    assert len(scores.per_query["nDCG@10"]) == 300
    assert scores.mean["nDCG@10"] == pytest.approx(ANSERINI_BM25_FLAT, abs=0.001)


@pytest.mark.parametrize(
    ("file", "queries", "level"),
    [
        ("qrels.dl19-passage.txt", 43, 2),
        ("qrels.dl20-passage.txt", 54, 2),
        ("qrels.msmarco-passage.dev-subset.txt", 6980, 1),
        ("qrels.beir-v1.0.0-scifact.test.txt", 300, 1),
    ],
)
def test_a_perfect_run_has_perfect_scores_with_registered_judgements(
    shared_data: Path, file: str, queries: int, level: int
) -> None:
    qrels = read_qrels(shared_data / "topics-and-qrels" / file)
    assert len(qrels) == queries
    perfect = {
        query: [(document, float(grade)) for document, grade in grades.items()] for query, grades in qrels.items()
    }
    at_level = f"(rel={level})"
    measures = ["nDCG@10", f"MAP{at_level}", f"R{at_level}@1000", f"MRR{at_level}@10"]
    # a query without a document of that grade scores zero
    expected = sum(any(grade >= level for grade in grades.values()) for grades in qrels.values()) / queries
    scores = evaluate(perfect, qrels, measures)
    assert scores.mean["nDCG@10"] == 1
    assert [scores.mean[measure] for measure in measures[1:]] == pytest.approx([expected] * 3, abs=5e-5)
    second = {query: [("before", 9.0), *hits] for query, hits in perfect.items()}
    assert evaluate(second, qrels, measures).mean[measures[3]] == pytest.approx(expected / 2, abs=5e-5)
