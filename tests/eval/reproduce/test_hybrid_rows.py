"""Rows of a model and BM25 in one index."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoders.training import recipe_file
from eval.reproduce.matrix import Column, Matrix, OtherModelRow, RecipeRow, Training
from eval.reproduce.plan import make_plan
from learned_sparse.core.files import home
from tests.toy_data import save_collection, save_recipes


def test_a_row_joins_its_model_with_bm25(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_file, "RECIPES", save_recipes(tmp_path / "recipes", ["small-splade"], tmp_path / "bert"))
    data = save_collection(tmp_path / "toy", ["train", "test"])
    rows = {
        "splade": RecipeRow(recipe="small-splade", changes=("validation=null",)),
        "both": OtherModelRow(model="splade", options=("--with", "bm25", "--bits", "4"), queries={"hybrid_alpha": 0.3}),
    }
    columns, training = {"toy": Column(collection=str(data), split="test")}, Training(data=(f"{data}:train",))
    plan = make_plan(Matrix(title="", columns=columns, rows=rows, training=training, plain_names=True), "m", tmp_path)
    steps = {step.name: step for step in plan.steps}
    vectors = str(home() / "vectors" / "toy" / "both")
    both = ("--collection", str(data), "--checkpoint", str(home() / "checkpoints" / "splade"))
    assert steps["vectors/toy/both"].arguments == (*both, "--with", "bm25", "--bits", "4", "--model", "both")
    queries = steps["queries/toy/test/both"]  # BM25's part of them is described by the documents
    assert queries.arguments[: len(both)] == both
    assert queries.arguments[len(both) :][:4] == ("--set", "hybrid_alpha=0.3", "--with", vectors)
    assert steps["vectors/toy/both"] in queries.needs
    assert steps["runs/toy/test/both.txt"].arguments[2:4] == ("--set", "hybrid_alpha=0.3")
