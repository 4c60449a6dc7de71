"""Validation, the search for the best mixture, and output biases from document frequencies."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from encoders.encoding.loading import load_encoder
from encoders.encoding.model import load_checkpoint
from encoders.models import SIDES
from encoders.training import validation
from encoders.training.recipe import Recipe
from encoders.training.session import Session, inverse_document_frequencies
from encoders.training.validation import Validator, mixture_scores, mrr_and_ndcg
from learned_sparse.core.encoder import encode_texts
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.training.conftest import Recipes, Trained

NAMES = ("one", "two", "three")
MIXTURES = [
    ({"weights": factors}, dict(zip(NAMES, map(float, factors), strict=True)))
    for factors in product(range(4), repeat=3)
    if any(factors)
]


def vectors(rng: np.random.Generator, *, coarse: bool) -> dict[str, tuple[Any, Any]]:
    """Random vectors of 12 queries and 60 documents by component; ``coarse`` values give many ties."""

    def random_rows(rows: int) -> Any:
        values = rng.integers(0, 3, (rows, 9)).astype(np.float32)
        if not coarse:
            values *= rng.random((rows, 9)).astype(np.float32)
        return scipy.sparse.csr_array(values * (rng.random((rows, 9)) < 0.3))

    return {name: (random_rows(12), random_rows(60)) for name in NAMES}


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("depth", [1, 3, 10])
def test_mixture_scores_equal_a_search_with_each_mixture(
    coarse: bool, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(depth)
    encoded = vectors(rng, coarse=coarse)
    queries = [f"q{row}" for row in range(12)]
    documents = [f"d{row}" for row in rng.permutation(60)]  # ties are broken by id, not by position
    query_vectors, pool = (
        scipy.sparse.hstack([pair[side] for pair in encoded.values()], format="csr") for side in (0, 1)
    )
    candidates = search(query_vectors, pool, queries, documents, 12)
    positives = {
        query: [
            candidates[query][int(hit)][0]
            for hit in rng.choice(len(candidates[query]), size=1 + number % 3, replace=False)
        ]
        for number, query in enumerate(queries)
    }
    scores = mixture_scores(MIXTURES, encoded, queries, documents, positives, depth)
    expected = []
    for _, factors in MIXTURES:
        joined = scipy.sparse.hstack([encoded[name][0] * np.float32(factors[name]) for name in NAMES], format="csr")
        expected.append(mrr_and_ndcg(search(joined, pool, queries, documents, depth), positives, depth)[0])
    assert scores.tolist() == pytest.approx(expected, abs=1e-9)
    assert len({round(score, 6) for score in expected}) > 3
    monkeypatch.setattr(validation, "_MAX_CELLS", 100)  # several small chunks
    assert mixture_scores(MIXTURES, encoded, queries, documents, positives, depth).tolist() == scores.tolist()


def search(queries: Any, documents: Any, query_ids: list[str], ids: list[str], depth: int) -> dict[str, Any]:
    """The best documents of each query, ties by document id."""
    scores = (queries @ documents.T).toarray()
    runs = (sorted(zip(ids, row, strict=True), key=lambda hit: (-hit[1], hit[0])) for row in scores.tolist())
    return {query: [hit for hit in run if hit[1] > 0][:depth] for query, run in zip(query_ids, runs, strict=True)}


def test_the_checkpoint_stores_the_best_alpha_of_validation(
    spade_recipe: Recipes, trained: Trained, tiny_collection: Any
) -> None:
    validation = {"collection": str(tiny_collection), "every": 10, "queries": None}
    stages = [{"component": name, "steps": 10, "learning_rate": 3e-3} for name in ("weighting", "expansion")]
    recipe: Any = spade_recipe(*stages, validation=validation)
    run = trained(recipe)
    chosen = run.notes()["settings"]["alpha"]
    session, scores = Session(recipe, "cpu"), []
    session.model = load_checkpoint(run.folder)
    for tenths in range(11):  # by a validation without mixtures
        session.use_settings(None, {"alpha": tenths / 10})
        scores.append(Validator(recipe.validation, recipe.seed).score(session, None)[0])
    assert chosen == np.argmax(scores) / 10
    assert max(scores) > min(scores)
    assert run.notes()["training"]["mixture"] == {"alpha": chosen}
    assert run.logged("MRR@10")[-1] == pytest.approx(max(scores), abs=1e-6)
    assert run.logged("MRR@10")[0] == pytest.approx(scores[0], abs=1e-6)  # the weighting alone, in the first stage
    unmixed = trained(spade_recipe(*stages, validation=validation, mix=False), "unmixed")
    assert unmixed.notes()["settings"]["alpha"] == 0.5
    assert "mixture" not in unmixed.notes()["training"]


DOCUMENTS = ["python file", "python file file", "wing", "python"]


def test_idf_is_added_to_the_biases_of_all_towers_except_gates(
    tiny_headless: Path, tiny_recipe: Callable[..., Recipe]
) -> None:
    settings = {"query": "asymmetric"}
    changes = {"backbone": str(tiny_headless), "output_bias": -3.0, "idf_bias": 0.5}
    session = Session(tiny_recipe(architecture="sparterm", settings=settings, **changes), "cpu")
    session.start_from(DOCUMENTS)
    ids = session.model.tokenizer.get_vocab()
    frequencies = inverse_document_frequencies(session.model, DOCUMENTS)
    ratios = {"python": 5 / 4, "file": 5 / 3, "wing": 5 / 2, "skin": 5, "[CLS]": 1, "[PAD]": 1, "[unused0]": 1}
    assert [float(frequencies[ids[term]]) for term in ratios] == pytest.approx([math.log(r) for r in ratios.values()])
    expected = -3.0 + 0.5 * frequencies
    assert set(session.model.towers) == {"importance", "gate", "query_importance"}
    for name, tower in session.model.towers.items():
        expected_bias = torch.full_like(expected, -3.0) if name == "gate" else expected
        torch.testing.assert_close(tower.decoder.bias.detach(), expected_bias)
    with pytest.raises(LearnedSparseError, match="no tower of this model has output biases"):
        Session(tiny_recipe(architecture="unicoil", idf_bias=0.5), "cpu").start_from(DOCUMENTS)


def test_validation_reports_terms_and_flops_beside_mrr(
    tiny_recipe: Callable[..., Recipe], trained: Callable[..., Any], tiny_collection: Path
) -> None:
    """The numbers of the log equal those of the vectors that the checkpoint gives."""
    validation = {"collection": str(tiny_collection), "every": 4, "queries": None}
    run = trained(tiny_recipe({"steps": 4}, validation=validation))
    (line,) = [line for line in run.log() if "MRR@10" in line]
    sides, files = {}, {"query": "queries.jsonl", "document": "corpus.jsonl"}
    for side in SIDES:
        texts = [json.loads(text)["text"] for text in (tiny_collection / files[side]).read_text().splitlines()]
        texts = texts[30:] if side == "query" else texts  # the queries of dev
        batch = encode_texts(load_encoder(str(run.folder), side, device="cpu", dtype="fp32"), texts)
        sides[side] = (batch.to_scipy().toarray() > 0).mean(axis=0)
    assert line["terms per query"] == pytest.approx(sides["query"].sum(), abs=1e-3)
    assert line["terms per document"] == pytest.approx(sides["document"].sum(), abs=1e-3)
    assert line["FLOPS"] == pytest.approx(sides["query"] @ sides["document"], abs=1e-3)
    assert line["MRR@10"] <= line["nDCG@10"] <= 1  # each query has one relevant document
