"""Rows with predicted queries of docT5query: the files that their training and encoding read."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoders.training import recipe_file
from eval.reproduce.matrix import Column, Matrix, Row, Training
from eval.reproduce.plan import make_plan
from tests.toy_data import save_collection, save_recipes


def test_predicted_queries_of_a_row_reach_training_and_encoding(
    tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_file, "RECIPES", save_recipes(tmp_path / "recipes", ["small-spade"], tmp_path / "bert"))
    data = tmp_path / "data"
    for name in ("toy", "other"):
        save_collection(data / name, ("train", "dev", "test"))
    rows = {
        "expanded": Row(recipe="small-spade", expanded=str(data / "{collection}" / "predicted.jsonl")),
        "plain": Row(recipe="small-spade"),
        "k=2": Row(model="expanded", encode={"k": 2}),
        "re-ranked": Row(model="expanded", rerank="plain", depth=5),
    }
    columns = {"other": Column(collection=str(data / "other"), split="test")}
    training = Training(data=(f"{data}/toy:train",), negatives=5, validation=str(data / "toy"))
    plan = make_plan(Matrix(title="", columns=columns, rows=rows, training=training, plain_names=True), "m", data)
    steps = {step.name: step for step in plan.steps}
    predicted = data / "other" / "predicted.jsonl"
    for row in ("expanded", "k-2"):
        encoded = steps[f"vectors/other/{row}"]
        assert encoded.arguments[encoded.arguments.index("--expanded") + 1] == str(predicted)
        assert predicted in encoded.reads
    (reranked,) = (step for step in plan.steps if step.module == "eval.rerank")
    assert reranked.arguments[reranked.arguments.index("--expanded") + 1] == str(predicted)
    assert predicted in reranked.reads
    trained = steps["checkpoints/expanded"]
    assert f"data.0.expanded={data}/toy/predicted.jsonl" in trained.arguments
    assert data / "toy" / "predicted.jsonl" in trained.reads
    for step in ("checkpoints/plain", "vectors/other/plain"):
        assert not any("expanded" in word for word in steps[step].arguments)
