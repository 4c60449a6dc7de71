"""Every recipe that comes with the package, and how recipes are read and changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.training.recipe import Recipe
from encoders.training.recipe_file import differences, load_recipe, recipe_names, to_mapping
from learned_sparse.errors import LearnedSparseError
from learned_sparse.settings import parse

NAMES = recipe_names()


def test_all_recipes_are_seen() -> None:
    assert NAMES == [
        "demo-sparterm",
        "demo-sparterm-literal",
        "demo-splade",
        "small-sparterm",
        "small-sparterm-literal",
        "small-splade",
        "sparterm-expansion",
        "sparterm-literal",
        "splade-flops",
        "splade-l1",
        "st-exp-flops",
        "st-exp-l1",
        "st-lexical-only",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_recipe_builds_a_model(name: str, tiny_backbone: Path) -> None:
    from encoders.training.session import Session

    recipe = load_recipe(name, changes=[f"backbone={tiny_backbone}", "num_hidden_layers=1", "max_length={query: 8}"])
    session = Session(recipe, "cpu")
    for stage in recipe.stages:
        assert session.learner(stage).parameters()
        assert session.micro_batch_size(stage) >= 1


@pytest.mark.parametrize("name", NAMES)
def test_recipe_survives_being_written_into_a_checkpoint(name: str) -> None:
    recipe = load_recipe(name)
    assert parse(Recipe, yaml.safe_load(yaml.safe_dump(to_mapping(recipe))), name) == recipe


def test_numbers_of_the_splade_paper() -> None:
    for name in ("splade-flops", "splade-l1", "st-exp-flops", "st-exp-l1", "st-lexical-only"):
        (stage,) = load_recipe(name).stages
        numbers = (stage.steps, stage.batch_size, stage.learning_rate, stage.warm_up_steps, stage.optimizer)
        assert numbers == (150_000, 124, 2e-5, 6_000, "adam")
        assert stage.regularizer.kind == {"l1": "l1", "flops": "flops", "only": "none"}[name.split("-")[-1]]
        assert stage.regularizer.ramp_steps == 50_000
        assert load_recipe(name).settings["saturation"] == ("log" if name.startswith("splade") else "none")


def test_numbers_of_the_sparterm_paper() -> None:
    gate, importance = load_recipe("sparterm-expansion").stages
    assert (gate.objective, gate.steps, gate.gate.negative_weight, gate.gate.positive_weight) == (
        "gate",
        50_000,
        1e-3,
        1,
    )
    assert (importance.objective, importance.steps, importance.joint, importance.rank.loss) == (
        "rank",
        100_000,
        False,
        "pairwise",
    )
    assert gate.batch_size == importance.batch_size == 128


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("stages.0.augment_pair=true", r"stages\[0\]: unknown key 'augment_pair'"),
        ("seeds=1", "unknown key 'seeds'; did you mean 'seed'"),
        ("stages.0.regularizer.kind=l2", "'l2' is not one of"),
        ("stages.7.steps=1", "'7' is not a place in a list of 1"),
        ("stages.0.steps", "expected key=value"),
        ("model.name=x", "nothing to set inside"),
        ("stages.0.micro_batch_size=50", "must divide 124"),
        ("negatives.kind=dense", "'dense' is not one of"),
    ],
)
def test_a_mistake_in_a_recipe_is_an_error(change: str, message: str) -> None:
    with pytest.raises(LearnedSparseError, match=message):
        load_recipe("splade-flops", changes=[change])


def test_recipes_that_cannot_learn_are_errors(recipe_values: Callable[..., dict[str, Any]]) -> None:
    none = {"kind": "none"}
    with pytest.raises(LearnedSparseError, match="pairwise loss needs hard negatives"):
        parse(Recipe, recipe_values({"rank": {"loss": "pairwise"}}, negatives=none), "r")
    with pytest.raises(LearnedSparseError, match="nothing to rank against"):
        parse(Recipe, recipe_values({"batch_size": 1}, negatives=none), "r")
    with pytest.raises(LearnedSparseError, match="at least one entry"):
        parse(Recipe, {**recipe_values(), "stages": []}, "r")


def test_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(LearnedSparseError, match="no recipe 'splade-flop'; did you mean 'splade-flops'"):
        load_recipe("splade-flop")


def test_changes_reach_lists_and_make_missing_levels() -> None:
    changes = ["stages.0.steps=7", "quantization.factor=10", "seed=3"]
    recipe = load_recipe("demo-splade", changes=changes, data=["scifact:train"])
    assert (recipe.stages[0].steps, recipe.quantization.factor, recipe.seed) == (7, 10.0, 3)
    assert recipe.data[0].collection == "scifact"
    found = differences(to_mapping(load_recipe("demo-splade", changes=changes[:1])), to_mapping(recipe))
    assert found == [
        "data.0.collection: 'pydoc' -> 'scifact'",
        "quantization.factor: None -> 10.0",
        "seed: 0 -> 3",
    ]
