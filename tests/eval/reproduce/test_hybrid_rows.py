"""Rows of a model and BM25 in one index."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoders.training import recipe_file
from eval.reproduce.matrix import Column, FusionRow, Matrix, OtherModelRow, RecipeRow, Training
from eval.reproduce.plan import make_plan
from learned_sparse.core.files import home
from tests.toy_data import save_collection, save_recipes


def test_a_row_joins_its_model_with_bm25(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_file, "RECIPES", save_recipes(tmp_path / "recipes", ["small-splade"], tmp_path / "bert"))
    data = save_collection(tmp_path / "toy", ["train", "test"])
    rows = {
        "splade": RecipeRow(recipe="small-splade", changes=("validation=null",)),
        "both": OtherModelRow(model="splade", options=("--with", "bm25", "--bits", "4"), queries={"hybrid_alpha": 0.3}),
        "pruned": OtherModelRow(
            model="splade", options=("--with", "bm25", "--bits", "4"), prune=("--top-dimensions", "9")
        ),
        "fused": FusionRow(fusion=("splade", "both")),
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

    pruned = steps["vectors/toy/pruned-pruned"]
    source, target = (str(home() / "vectors" / "toy" / name) for name in ("pruned", "pruned-pruned"))
    assert pruned.arguments == ("prune", "--vectors", source, "--top-dimensions", "9", "--output", target)
    assert steps["queries/toy/test/pruned"].arguments[len(both) :][:2] == ("--with", target)
    assert steps["indexes/toy/pruned-pruned"].needs == (pruned,)

    fused = steps["runs/toy/test/fused.txt"]
    runs = [str(home() / "runs" / "toy" / "test" / f"{name}.txt") for name in ("splade", "both")]
    assert fused.arguments[:7] == ("fusion", "--method", "rrf", "--depth", "1000", "--k", "1000")
    assert fused.arguments[7:] == ("--runs", *runs, "--output", str(fused.writes[0]))
    assert fused.needs == (steps["runs/toy/test/splade.txt"], steps["runs/toy/test/both.txt"])
