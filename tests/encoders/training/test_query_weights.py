"""Queries without a network and a weight for each term: from document frequencies, or trained with the documents."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learned_sparse.collections.collection import load_collection
from tests.encoders.training.conftest import WORDS, Recipes, Trained

BAG = {"query": "bag-of-words"}
FAMILIES: dict[str, dict[str, Any]] = {
    "splade": BAG,
    "spade": {"k": 3},
    "unicoil": BAG,
    "deepimpact": {},
    "tildev2": {},
    "sparterm": {"mode": "literal-only"},
}


@pytest.mark.parametrize("weighting", ["idf", "learned"])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_trained_with_the_documents(
    family: str, weighting: str, tiny_recipe: Recipes, tiny_collection: Path, trained: Trained
) -> None:
    no_head = weighting == "idf" and family in {"splade", "sparterm"}
    stage = {"steps": 4} if no_head else {"steps": 4, "learning_rates": {"head": 0.05}}
    key = "query" if family == "sparterm" else "query_weighting"
    run = trained(tiny_recipe(stage, architecture=family, settings={**FAMILIES[family], key: weighting}))
    texts = [document.text.split() for document in load_collection(str(tiny_collection)).documents()]
    counts = {word: sum(word in text for text in texts) for word in WORDS}
    idf = {word: math.log((len(texts) + 1) / (counts[word] + 1)) / math.log(len(texts) + 1) for word in WORDS}
    table, first = run.weights()["query_weights/weights"].numpy(), 5  # after the special tokens
    if weighting == "idf":
        assert table[first:].tolist() == pytest.approx(list(idf.values()), rel=1e-5)
    else:
        moved = np.abs(table[first:] - np.array(list(idf.values())))
        assert 0.02 < moved.max() < 0.5
    assert table[:first].max() == 0
    notes = run.notes()
    assert notes["bags"]["query"]["weighting"] == "table"
    assert notes["quantizers"]["query"]["scale"] == 100.0
