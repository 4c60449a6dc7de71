"""Whole training runs on a tiny model: recorded losses, overfitting, stages, resuming, the checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from encoders.encoding.model import load_checkpoint
from encoders.training.recipe import Recipe, to_mapping
from learned_sparse.collections.collection import load_collection
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import locked, read_json, write_json
from tests.encoders.training.conftest import Recipes, Trained

REGULARIZER = {"kind": "flops", "lambda_query": 1e-3, "lambda_document": 1e-3, "ramp_steps": 10}
LEARNS = {"steps": 70, "batch_size": 30, "learning_rate": 3e-3, "dropout": False, "rank": {"score_scale": 0.1}}
VALIDATED = {"every": 4, "queries": None, "pool": 20}


def test_recorded_training(tiny_recipe: Recipes, trained: Trained) -> None:
    """Twenty steps with a fixed seed; a change in any part of training changes these numbers."""
    losses = trained(tiny_recipe({"regularizer": REGULARIZER, "warm_up_steps": 4})).logged("loss")
    assert len(losses) == 20
    recorded = [47.00117, 55.76274, 32.49790, 20.66697, 23.00750, 16.23955, 24.78714]
    assert losses[::3] == pytest.approx(recorded, rel=1e-3)


MINED = {"kind": "self", "every": 7, "ranks": [1, 10], "per_query": 3}
PRUNED = {"pruning": {"gamma": [0.6, 0.5, 0.3], "window": 2}}
COTRAINED = {"steps": 6, "batch_size": 4, "options": {"cotraining": {"select_from": 24}, "pointwise": 0.5, **PRUNED}}


ADAMW = {"optimizer": "adamw", "weight_decay": 0.1, "max_gradient_norm": 1.0, "regularizer": REGULARIZER}
RESUMED: dict[str, Any] = {
    "adamw": ([ADAMW], {}, 10, []),
    "cached": ([{"micro_batch_size": 4}], {}, 10, []),
    "checkpointed layers": ([{}], {"precision": "bf16", "gradient_checkpointing": True}, 10, []),
    "query weights": ([{}], {"settings": {"query": "bag-of-words", "query_weighting": "learned"}}, 10, []),
    "mined": ([{"steps": 10}, {"steps": 10, "negatives": MINED}], {"negatives": {"per_query": 2}}, 15, [0, 7]),
    "co-trained": ([{"component": "weighting", "steps": 2}, COTRAINED], {"architecture": "spade"}, 5, []),
}
"""Stages, changes, the step after which the run stops, and the steps of its last stage that mine. Co-training stops
inside a pruning window."""


@pytest.mark.parametrize("case", RESUMED)
def test_a_resumed_run_equals_one_that_was_not_stopped(
    case: str, tiny_recipe: Recipes, tiny_collection: Path, trained: Trained, stop_after: Any
) -> None:
    stages, changes, steps, mined = RESUMED[case]
    recipe = tiny_recipe(*stages, validation={"collection": str(tiny_collection), **VALIDATED, "every": 2}, **changes)
    whole = trained(recipe, "whole")
    stop_after(steps)
    early = trained(recipe, "resumed").report
    assert (early.finished, early.steps) == (False, steps)
    stop_after(0)
    resumed = trained(recipe, "resumed", resume=True)
    assert resumed.report.finished
    assert resumed.moved_since(whole) == set()
    assert resumed.notes()["settings"] == whole.notes()["settings"]
    assert resumed.notes()["training"]["MRR@10"] == whole.report.best_score
    mining = [(line["stage"], line["step"]) for line in resumed.log() if "mined queries" in line]
    assert mining == [(len(stages) - 1, step) for step in mined]
    for key in ("loss", "MRR@10", "gamma", "pruned_terms"):
        assert resumed.logged(key) == whole.logged(key)


def test_validation_keeps_the_best_weights(
    tiny_recipe: Recipes, tiny_collection: Path, trained: Trained, scores: Callable[..., None]
) -> None:
    scores(0.2, 0.5, 0.5, 0.1, 0.3)
    run = trained(tiny_recipe(validation={"collection": str(tiny_collection), **VALIDATED}))
    assert run.report.best_score == 0.5
    assert run.notes()["training"]["best_step"] == 8  # the earlier of two equal scores
    assert run.logged("MRR@10") == [0.2, 0.5, 0.5, 0.1, 0.3]
    best = load_file(run.folder / "training" / "best-00-000000008.safetensors")
    final = run.weights()["document/cls.predictions.transform.dense.weight"]
    assert any(torch.equal(final, tensor) for tensor in best.values() if tensor.shape == final.shape)
    assert len(list((run.folder / "training").glob("best-*"))) == 1


@pytest.mark.parametrize(
    ("regularizer", "best"),
    [({"ramp_steps": 8}, 8), ({}, 12), ({"ramp_steps": 99}, 20), ({"ramp_steps": 99, "lambda_document": 0.0}, 4)],
)
def test_the_best_weights_are_chosen_when_lambda_is_full(
    tiny_recipe: Recipes, tiny_collection: Path, trained: Trained, scores: Callable[..., None],
    regularizer: dict[str, Any], best: int,
) -> None:  # fmt: skip
    """Early weights, which are dense, validate best; by default lambda is full after a third of the steps."""
    scores(0.9, 0.5, 0.4 if best == 8 else 0.6, 0.3, 0.2)
    stage = {"regularizer": {"kind": "flops", "lambda_document": 1e-3, **regularizer}}
    run = trained(tiny_recipe(stage, validation={"collection": str(tiny_collection), **VALIDATED}))
    assert run.notes()["training"]["best_step"] == best


def test_training_improves_retrieval(tiny_recipe: Recipes, tiny_collection: Path, trained: Trained) -> None:
    validation = {"collection": str(tiny_collection), "split": "train", "every": 1, "queries": None}
    run = trained(tiny_recipe({**LEARNS, "warm_up_steps": 50}, validation=validation))
    scores, losses = run.logged("MRR@10"), run.logged("loss")
    assert scores[0] < 0.2
    assert scores[-1] > 0.9
    assert losses[-1] < 0.1 < 1.0 < losses[0]


def test_a_checkpoint_stores_quantisers_recipe_and_lengths(
    tiny_recipe: Recipes, trained: Trained, tiny_collection: Path
) -> None:
    literal = tiny_recipe({"steps": 1}, architecture="sparterm", settings={"mode": "literal-only"})
    sparterm = load_checkpoint(trained(literal).folder)
    assert sparterm.recipe == to_mapping(literal)
    assert sparterm.max_length == {"query": 8, "document": 12}
    quantizer = sparterm.quantizers["document"]
    assert quantizer is not None
    assert quantizer.bits == 8
    texts = [document.text for document in load_collection(str(tiny_collection)).documents()]
    tokens = sparterm.tokenizer(texts, padding=True, return_tensors="pt")
    largest = float(sparterm.weighers.document(tokens["input_ids"], tokens["attention_mask"]).detach().max())
    # calibrated on documents of the collection: the largest weight seen becomes 255
    assert 200 < largest * quantizer.scale < 256


def test_an_existing_run_is_not_overwritten(tiny_recipe: Recipes, trained: Trained) -> None:
    recipe = tiny_recipe({"steps": 2})
    trained(recipe)
    with pytest.raises(LearnedSparseError, match="go on with --resume"):
        trained(recipe)
    assert trained(recipe, resume=True).report.finished
    with pytest.raises(LearnedSparseError, match=r"another recipe \(stages.0.learning_rate: 0.001 before, 0.01 now\)"):
        trained(tiny_recipe({"steps": 2, "learning_rate": 0.01}), resume=True)
    assert len(trained(tiny_recipe({"steps": 1}), overwrite=True).logged("loss")) == 1


def test_resuming_on_moved_data_goes_on_and_on_other_data_is_refused(
    tiny_recipe: Recipes, tiny_collection: Path, trained: Trained, tmp_path: Path, stop_after: Any
) -> None:
    def recipe_on(name: str) -> Recipe:
        data = [{"collection": str(tmp_path / name), "run": str(tmp_path / name / "train.run")}]
        return tiny_recipe(data=data, validation={"collection": str(tmp_path / name), "every": 2})

    copy = tmp_path / "copy"
    shutil.copytree(tiny_collection, copy)
    stop_after(3)
    trained(recipe_on("copy"))
    copy = copy.rename(tmp_path / "moved")
    changed = {"corpus.jsonl": "data.0, validation", "train.run": "data.0.run", "qrels/dev.tsv": "validation"}
    for name, parts in changed.items():
        before = (copy / name).read_text()
        lines = before.splitlines(keepends=True)
        (copy / name).write_text("".join(lines[:-2]))
        with pytest.raises(
            LearnedSparseError, match=rf"the training data have changed since the run began \({parts}\)"
        ):
            trained(recipe_on("moved"), resume=True)
        (copy / name).write_text(before)
    assert trained(recipe_on("moved"), resume=True).report.finished


def contents(folder: Path) -> dict[str, bytes]:
    """Every file, also hidden ones."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_overwriting_keeps_the_old_run_until_recipe_and_data_are_known_to_be_right(
    tiny_recipe: Recipes, trained: Trained
) -> None:
    """An error of a later step leaves the old checkpoint, but no state to resume from."""
    run = trained(tiny_recipe({"steps": 2}))
    whole = contents(run.folder)
    with pytest.raises(LearnedSparseError, match="no such"):
        trained(tiny_recipe(data=[{"collection": str(run.folder / "nowhere")}]), overwrite=True)
    assert contents(run.folder) == whole
    with pytest.raises(LearnedSparseError, match="not finite; lower learning_rate"):
        trained(tiny_recipe({"learning_rate": 1e30, "dropout": False, "steps": 5}), overwrite=True)
    checkpoint = {name: content for name, content in whole.items() if not name.startswith("training/")}
    left = contents(run.folder)
    assert checkpoint.items() <= left.items()
    assert [name for name in left if name.startswith("training/")] == ["training/log.jsonl"]
    again = trained(tiny_recipe({"steps": 3}), resume=True)
    assert (again.report.finished, again.report.steps, len(again.logged("loss"))) == (True, 3, 3)


def test_a_recipe_is_compared_by_meaning_when_a_run_is_resumed(
    tiny_recipe: Recipes, trained: Trained, stop_after: Any
) -> None:
    """A key that is new since the run began, with a default, is no difference; a removed one is named."""
    stop_after(2)
    run = trained(tiny_recipe({"steps": 4}))
    stop_after(0)
    path = run.folder / "training" / "state" / "state.json"
    state = read_json(path, record=True)
    del state["recipe"]["idf_bias"], state["recipe"]["stages"][0]["rank"]["negatives_from"]
    write_json(path, state, record=True)
    write_json(path, {**state, "recipe": {**state["recipe"], "old_key": 1}}, record=True)
    with pytest.raises(LearnedSparseError, match=r"unknown key 'old_key'.*--overwrite starts again"):
        trained(tiny_recipe({"steps": 4}), resume=True)
    path.unlink()
    with pytest.raises(LearnedSparseError, match=r"state\.json: no such file"):
        trained(tiny_recipe({"steps": 4}), resume=True)
    write_json(path, state, record=True)
    assert trained(tiny_recipe({"steps": 4}), resume=True).report.finished


def test_two_trainings_into_one_folder(tiny_recipe: Recipes, trained: Trained, tmp_path: Path) -> None:
    with locked(tmp_path / "run"), pytest.raises(LearnedSparseError, match="run: another command writes"):
        trained(tiny_recipe({"steps": 1}))
    assert not (tmp_path / "run").exists()
    assert trained(tiny_recipe({"steps": 1})).report.finished
