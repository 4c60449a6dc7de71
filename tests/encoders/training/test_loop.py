"""Whole training runs on a tiny model: recorded losses, overfitting, stages, resuming, what is kept."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from encoders.encoding import load_checkpoint, new_model, save_checkpoint
from encoders.training import Recipe, run_recipe, to_mapping
from encoders.training.journal import Stopping
from encoders.training.validation import Validator
from learned_sparse.collections import load_collection
from learned_sparse.core import LearnedSparseError, Quantizer, parse

Recipes = Callable[..., Recipe]
train = functools.partial(run_recipe, device="cpu", quiet=True)
REGULARIZER = {"kind": "flops", "lambda_query": 1e-3, "lambda_document": 1e-3, "ramp_steps": 10}


def log(output: Path) -> list[dict[str, Any]]:
    lines = (output / "training" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def losses(output: Path) -> list[float]:
    return [line["loss"] for line in log(output) if "loss" in line]


def weights(output: Path) -> dict[str, torch.Tensor]:
    files = sorted((output / "towers").glob("*/model.safetensors"))
    assert files
    return {f"{file.parent.name}/{name}": tensor for file in files for name, tensor in load_file(file).items()}


def assert_same_weights(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_recorded_training(tiny_recipe: Recipes, tmp_path: Path) -> None:
    """Twenty steps with a fixed seed; a change in any part of training changes these numbers."""
    train(tiny_recipe({"regularizer": REGULARIZER, "warm_up_steps": 4}), tmp_path / "run")
    found = losses(tmp_path / "run")
    assert len(found) == 20
    recorded = [47.00117, 55.76274, 32.49790, 20.66697, 23.00750, 16.23955, 24.78714]
    assert found[::3] == pytest.approx(recorded, rel=1e-3)


LEARNS = {"steps": 70, "batch_size": 30, "learning_rate": 3e-3, "dropout": False, "rank": {"score_scale": 0.1}}


def test_one_batch_can_be_overfitted(tiny_recipe: Recipes, tmp_path: Path) -> None:
    train(tiny_recipe(LEARNS, negatives={"kind": "none"}), tmp_path / "run")
    found = losses(tmp_path / "run")
    assert found[0] > 1.0
    assert found[-1] < 0.05


def test_number_of_negatives_is_logged(tiny_recipe: Recipes, tmp_path: Path) -> None:
    train(
        tiny_recipe({"steps": 3, "rank": {"mask_known_positives": False}}), tmp_path / "run", device="cpu", quiet=True
    )
    lines = log(tmp_path / "run")
    assert [line["negatives_per_query"] for line in lines] == [8.0] * 3  # 7 others' positives and the hard negative
    assert {"step", "loss", "rank_loss", "learning_rate", "terms_per_query", "terms_per_document"} < lines[0].keys()
    assert lines[0]["examples_per_second"] > 0


VALIDATED = {"every": 4, "queries": None, "pool": 20}


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the run end after ``step`` steps of its last stage, as if its time were up."""
    calls = iter(range(1, 1000))
    monkeypatch.setattr(Stopping, "now", lambda self: next(calls) == step)


@pytest.mark.parametrize(
    "changes",
    [
        {"stage": {"regularizer": REGULARIZER, "optimizer": "adamw", "weight_decay": 0.1, "max_gradient_norm": 1.0}},
        {"negatives": {"kind": "self", "every": 7, "last_rank": 10}},
        {"stage": {"micro_batch_size": 4, "scope": "batch"}},
    ],
    ids=["adamw", "self-mined", "cached"],
)
def test_resuming_from_step_10_gives_the_same_step_20(
    tiny_recipe: Recipes,
    tiny_collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
) -> None:
    changes = {"validation": {"collection": str(tiny_collection), **VALIDATED}, **changes}
    if "negatives" in changes:
        changes["data"] = [{"collection": str(tiny_collection)}]
    recipe = tiny_recipe(changes.pop("stage", None), **changes)
    undisturbed = train(recipe, tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_at(patch, 10)
        early = train(recipe, tmp_path / "halves")
    assert (early.finished, early.steps) == (False, 10)
    late = train(recipe, tmp_path / "halves", resume=True)
    assert (late.finished, late.steps, late.best_score) == (True, 20, undisturbed.best_score)
    assert losses(tmp_path / "halves") == losses(tmp_path / "whole")
    mined = [line["step"] for line in log(tmp_path / "halves") if "mined queries" in line]
    assert mined == ([0, 7, 14] if recipe.negatives.kind == "self" else [])
    assert_same_weights(tmp_path / "halves", tmp_path / "whole")


def test_validation_keeps_the_best_weights(
    tiny_recipe: Recipes, tiny_collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.2, 0.5, 0.5, 0.1, 0.3])
    monkeypatch.setattr(Validator, "score", lambda *_: (next(scores), -1))
    recipe = tiny_recipe(validation={"collection": str(tiny_collection), **VALIDATED})
    report = train(recipe, tmp_path / "run")
    notes = json.loads((tmp_path / "run" / "learned_sparse.json").read_text(encoding="utf-8"))
    assert report.best_score == 0.5
    assert notes["training"]["best_step"] == 8  # the earlier of two equal scores
    assert [line["MRR@10"] for line in log(tmp_path / "run") if "MRR@10" in line] == [0.2, 0.5, 0.5, 0.1, 0.3]
    best = load_file(tmp_path / "run" / "training" / "best-00-000000008.safetensors")
    final = weights(tmp_path / "run")["document/cls.predictions.transform.dense.weight"]
    assert any(torch.equal(final, tensor) for tensor in best.values() if tensor.shape == final.shape)
    assert len(list((tmp_path / "run" / "training").glob("best-*"))) == 1


def test_training_improves_retrieval(tiny_recipe: Recipes, tiny_collection: Path, tmp_path: Path) -> None:
    validation = {"collection": str(tiny_collection), "split": "train", "every": 70, "queries": None, "at_start": True}
    train(tiny_recipe(LEARNS, validation=validation), tmp_path / "run")
    before, after = (line["MRR@10"] for line in log(tmp_path / "run") if "MRR@10" in line)
    assert before < 0.2
    assert after > 0.9


GATED = {
    "architecture": "sparterm",
    "settings": {"mode": "expansion-enhanced", "gate_pool": "raw_max", "threshold": 0.5},
}


def two_stages(recipe_values: Callable[..., dict[str, Any]], *, joint: bool) -> dict[str, Any]:
    values = recipe_values(**GATED)
    (stage,) = values["stages"]
    gate = {**stage, "name": "gate", "objective": "gate", "steps": 3}
    rank = {**stage, "name": "importance", "steps": 3, "joint": joint, "rank": {"loss": "pairwise", "score_scale": 0.1}}
    return {**values, "stages": [gate, rank]}


def moved(before: Path, after: Path) -> set[str]:
    """The towers with a weight that differs."""
    first, second = weights(before), weights(after)
    return {name.split("/")[0] for name in first if not torch.equal(first[name], second[name])}


@pytest.mark.parametrize("joint", [False, True])
def test_the_gate_is_trained_first_and_then_frozen_unless_joint(
    recipe_values: Callable[..., dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    joint: bool,
) -> None:
    recipe = parse(Recipe, two_stages(recipe_values, joint=joint), "recipe")
    save_checkpoint(tmp_path / "start", new_model(recipe.architecture, recipe.settings, recipe.backbone))
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        train(recipe, tmp_path / "gate")
    train(recipe, tmp_path / "whole")
    assert moved(tmp_path / "start", tmp_path / "gate") == {"gate"}
    assert moved(tmp_path / "gate", tmp_path / "whole") == ({"gate", "importance"} if joint else {"importance"})
    names = [set(line) & {"gate_loss", "rank_loss"} for line in log(tmp_path / "whole")]
    assert names == [{"gate_loss"}] * 3 + [{"gate_loss", "rank_loss"} if joint else {"rank_loss"}] * 3


def test_a_checkpoint_has_its_quantisers_recipe_and_lengths(
    tiny_recipe: Recipes, tmp_path: Path, tiny_collection: Path
) -> None:
    train(tiny_recipe({"steps": 1}), tmp_path / "splade")
    splade = load_checkpoint(tmp_path / "splade")
    assert splade.quantizers == dict.fromkeys(("query", "document"), Quantizer(100.0))
    assert splade.max_length == {"query": 8, "document": 12}
    literal = tiny_recipe({"steps": 1}, architecture="sparterm", settings={"mode": "literal-only"})
    train(literal, tmp_path / "sparterm")
    sparterm = load_checkpoint(tmp_path / "sparterm")
    assert sparterm.recipe == to_mapping(literal)
    quantizer = sparterm.quantizers["document"]
    assert quantizer is not None
    assert quantizer.bits == 8
    tokens = sparterm.tokenizer([line.text for line in _documents(tiny_collection)], padding=True, return_tensors="pt")
    weights_found = sparterm.weighers.document(tokens["input_ids"], tokens["attention_mask"])
    largest = float(weights_found.detach().max())
    # calibrated on documents of the collection: the largest weight seen becomes 255
    assert 200 < largest * quantizer.scale < 256


def _documents(folder: Path) -> Any:
    return load_collection(str(folder)).documents()


def test_a_folder_in_use_is_not_trained_over(tiny_recipe: Recipes, tmp_path: Path) -> None:
    recipe, output = tiny_recipe({"steps": 2}), tmp_path / "run"
    train(recipe, output)
    with pytest.raises(LearnedSparseError, match="go on with --resume"):
        train(recipe, output)
    assert train(recipe, output, resume=True).finished
    with pytest.raises(LearnedSparseError, match=r"another recipe \(stages.0.learning_rate: 0.001 -> 0.01\)"):
        train(tiny_recipe({"steps": 2, "learning_rate": 0.01}), output, resume=True)
    train(tiny_recipe({"steps": 1}), output, overwrite=True)
    assert len(losses(output)) == 1


def test_resuming_on_other_data_is_refused(
    tiny_recipe: Recipes, tiny_collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    copy = tmp_path / "collection"
    shutil.copytree(tiny_collection, copy)
    recipe = tiny_recipe(data=[{"collection": str(copy), "run": str(copy / "train.run")}])
    stop_at(monkeypatch, 3)
    train(recipe, tmp_path / "run")
    with (copy / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"_id": "new", "title": "", "text": "w1"}\n')
    with pytest.raises(LearnedSparseError, match="the training data have changed"):
        train(recipe, tmp_path / "run", resume=True)


def test_a_loss_that_is_not_finite_ends_the_run(tiny_recipe: Recipes, tmp_path: Path) -> None:
    stage = {"learning_rate": 1e30, "dropout": False, "steps": 5}
    with pytest.raises(LearnedSparseError, match="not finite; lower learning_rate"):
        train(tiny_recipe(stage), tmp_path / "run")


def test_an_architecture_without_gate_has_none_to_train(tiny_recipe: Recipes, tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="stage ranking: this architecture has no objective 'gate'"):
        train(tiny_recipe({"objective": "gate"}), tmp_path / "run")


def test_bf16_trains(tiny_recipe: Recipes, tmp_path: Path) -> None:
    train(tiny_recipe({"steps": 2}, precision="bf16"), tmp_path / "bf16")
    train(tiny_recipe({"steps": 2}), tmp_path / "fp32")
    assert losses(tmp_path / "bf16") != losses(tmp_path / "fp32")
    assert losses(tmp_path / "bf16") == pytest.approx(losses(tmp_path / "fp32"), rel=0.05)
    assert {tensor.dtype for tensor in weights(tmp_path / "bf16").values()} == {torch.float32}
