"""Hard negatives from real Lucene."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoders.training.data.examples import JudgedExamples
from encoders.training.data.mining import bm25_run, hard_negatives
from encoders.training.data.texts import TextStore
from encoders.training.recipe import Negatives
from learned_sparse.core.records import Document

TEXTS = {
    "d1": "hives and itching skin",
    "d2": "hives of bees",
    "d3": "weather in Bali",
    "d4": "bees and honey and hives",
}


def judged(texts: dict[str, str]) -> JudgedExamples:
    store = TextStore(Document(id, text) for id, text in texts.items())
    return JudgedExamples({"q": "bees in hives"}, {"q": ["d2"]}, store, per_query=1)


@pytest.mark.jvm
def test_bm25_finds_negatives_once_per_collection(tmp_path: Path) -> None:
    run, index = tmp_path / "runs" / "bm25.txt", tmp_path / "index"
    found = bm25_run(judged(TEXTS), 10, run=run, index=index)
    assert [id for id, _ in found["q"]] == ["d2", "d4", "d1"]
    assert hard_negatives(found, judged(TEXTS), Negatives(), where="run") == {"q": ["d4", "d1"]}
    written = run.stat().st_mtime_ns
    assert bm25_run(judged(TEXTS), 10, run=run, index=index) == found
    assert run.stat().st_mtime_ns == written
    changed = bm25_run(judged({**TEXTS, "d3": "bees bees hives"}), 10, run=run, index=index)
    assert "d3" in [id for id, _ in changed["q"]]
