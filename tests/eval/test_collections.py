"""Real judgements and a published score, with this package's collections, BM25 and evaluation."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.measures import evaluate
from learned_sparse.collections.collection import load_collection
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
