"""Stages of training: best weights, patience, learning rates, and tiny models that overfit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from encoders.training.learner import Learner
from encoders.training.session import Session
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.training.conftest import Recipes, Trained


def test_the_next_stage_starts_from_the_best_weights(
    spade_recipe: Recipes, trained: Trained, tiny_collection: Any, scores: Callable[..., None], stop_after: Any
) -> None:
    validation = {"collection": str(tiny_collection), "every": 1, "queries": None}
    first = {"component": "weighting", "steps": 3}
    recipe = spade_recipe(first, {"component": "expansion", "steps": 1}, validation=validation, mix=False)
    scores(0.1, 0.5, 0.2, 0.0)
    complete = trained(recipe)
    scores(0.1, 0.5)
    stop_after(2)
    best = trained(recipe, "best")
    assert complete.moved_since(best) == {"expansion"}


def test_a_stage_ends_when_patience_is_exhausted(
    spade_recipe: Recipes, trained: Trained, tiny_collection: Any, scores: Callable[..., None], stop_after: Any
) -> None:
    validation = {"collection": str(tiny_collection), "every": 2, "queries": None, "patience": 2}
    stages = {"component": "weighting", "steps": 20}, {"component": "expansion", "steps": 4, "validate_every": 1}
    scores(0.1, 0.5, 0.4, 0.5, 0.3, 0.6, 0.7, 0.7)
    run = trained(spade_recipe(*stages, validation=validation, mix=False))
    steps = [(line["stage"], line["step"]) for line in run.log() if "MRR@10" in line]
    assert steps == [(0, 2), (0, 4), (0, 6), (0, 8), (1, 1), (1, 2), (1, 3), (1, 4)]
    assert run.notes()["training"]["finished"]
    scores(0.1, 0.5, 0.4)
    stop_after(7)
    trained(spade_recipe(*stages, validation=validation, mix=False), "resumed")
    scores(0.5, 0.3, 0.6, 0.7, 0.7)
    stop_after(0)
    resumed = trained(spade_recipe(*stages, validation=validation, mix=False), "resumed", resume=True)
    assert resumed.moved_since(run) == set()
    assert resumed.logged("loss") == run.logged("loss")


WARM_UP = {"component": "expansion", "steps": 2, "dropout": False, "settings": {"k": None}}


def test_top_k_masking_in_fine_tuning_only(spade_recipe: Recipes, trained: Trained) -> None:
    """SpaDE §3.4, Fig. 4; the checkpoint has the k of the model."""
    run = trained(spade_recipe(WARM_UP, {**WARM_UP, "settings": {}}, settings={"k": 1}))
    warm_up, fine_tuning = run.logged("terms_per_document")[:2], run.logged("terms_per_document")[2:]
    assert max(fine_tuning) <= 7  # five words, [CLS] and [SEP]
    assert min(warm_up) > 2 * max(fine_tuning)
    assert run.notes()["settings"]["k"] == 1


def test_validation_is_that_of_the_stages_model(spade_recipe: Recipes, trained: Trained, tiny_collection: Any) -> None:
    """A stage without validation keeps its last weights; one with validation is searched with its settings."""
    validation = {"collection": str(tiny_collection), "every": 1, "queries": None}
    unvalidated = {**WARM_UP, "learning_rate": 1e-9, "validate_every": 0}
    stages = [
        unvalidated,
        {**unvalidated, "validate_every": None},
        {**unvalidated, "settings": {}, "validate_every": None},
    ]
    run = trained(spade_recipe(*stages, settings={"k": 1}, validation=validation, mix=False))
    scores = [(line["stage"], line["MRR@10"]) for line in run.log() if "MRR@10" in line]
    assert [stage for stage, _ in scores] == [1, 1, 2, 2]
    assert scores[1][1] != scores[2][1]


def test_a_stage_that_its_model_cannot_train_is_refused(
    spade_recipe: Recipes, tiny_recipe: Recipes, first_stage: Any
) -> None:
    with pytest.raises(LearnedSparseError, match="stage stage 1: settings: 'repeats' cannot change by stage; known: a"):
        Session(spade_recipe({"steps": 1}, {"steps": 1, "settings": {"repeats": "mean"}}), "cpu")
    with pytest.raises(LearnedSparseError, match="no component 'weigthing'; the model has weighting, expansion"):
        first_stage(spade_recipe({"component": "weigthing"}))
    with pytest.raises(LearnedSparseError, match="learning_rates: no component 'expanson'; did you mean 'expansion'"):
        first_stage(spade_recipe({"learning_rates": {"expanson": 1.0}}))
    with pytest.raises(LearnedSparseError, match="no tower has a head of its own"):
        first_stage(tiny_recipe({"learning_rates": {"head": 1e-3}}))
    with pytest.raises(LearnedSparseError, match=r"stage 0: this architecture has no objective 'gate'; known: rank$"):
        first_stage(tiny_recipe(GATE))
    with pytest.raises(LearnedSparseError, match=r"no objective .rank.; known: term_recall$"):
        first_stage(tiny_recipe({}, architecture="deepct"))
    with pytest.raises(LearnedSparseError, match="objective: gate has no weights to regularise"):
        regularizer = {"kind": "flops", "lambda_query": 1.0}
        first_stage(tiny_recipe({**GATE, "regularizer": regularizer}, architecture="sparterm"))


GATE = {"objective": "gate", "steps": 1}


def test_the_gate_is_trained(tiny_recipe: Recipes, trained: Trained) -> None:
    """By the gate stage and by a joint one; the ranking loss alone does not train it (SparTerm §4.2)."""
    settings = {"query": "asymmetric", "gate_pool": "raw_max"}
    importance = {"importance", "query_importance"}
    untrained = trained(tiny_recipe({**GATE, "learning_rate": 0.0}, architecture="sparterm", settings=settings))
    for name, stage, moved in [
        ("gate", GATE, {"gate"}),
        ("joint", {"steps": 1, "options": {"joint": True}}, {"gate", *importance}),
        ("rank", {"steps": 1}, importance),
    ]:
        run = trained(tiny_recipe(stage, architecture="sparterm", settings=settings), name)
        assert run.moved_since(untrained) == moved


def test_learning_rates_of_heads_and_components(spade_recipe: Recipes) -> None:
    stage = {
        "learning_rate": 1e-3,
        "learning_rates": {"expansion": 1e-4, "head": 1e-2},
        "weight_decay": 0.1,
    }
    session = Session(spade_recipe(stage), "cpu")
    learner, towers = Learner(spade_recipe(stage).stages[0], session), session.model.towers
    rates = {id(p): group["lr"] for group in learner.optimizer.param_groups for p in group["params"]}
    head = {id(parameter) for parameter in towers["weighting"].new_parameters()}
    assert {rates[id(p)] for p in towers["weighting"].parameters() if id(p) in head} == {1e-2}
    assert {rates[id(p)] for p in towers["weighting"].parameters() if id(p) not in head} == {1e-3}
    assert {rates[id(p)] for p in towers["expansion"].parameters()} == {1e-4}
    decay = {group["weight_decay"]: {p.ndim for p in group["params"]} for group in learner.optimizer.param_groups}
    assert decay[0.0] == {1}
    assert 1 not in decay[0.1]


@pytest.fixture
def uhd(tiny_recipe: Recipes) -> Recipes:
    """``tiny_recipe`` of a tiny UHD-BERT with two buckets."""
    settings = {"dimensions": 64, "k": 8, "layers": [1, 2]}
    return functools.partial(tiny_recipe, architecture="uhd", settings=settings, negatives={"per_query": 0})


HINGE = {"rank": {"loss": "hinge"}}


def test_buckets_are_trained_one_at_a_time_and_validation_sets_their_weights(
    uhd: Recipes, trained: Trained, tiny_collection: Any
) -> None:
    validation = {"collection": str(tiny_collection), "every": 10, "queries": None}
    stages = [{**HINGE, "component": name, "steps": 10, "learning_rate": 3e-3} for name in ("b1", "b2")]
    run = trained(uhd(*stages, validation=validation))
    chosen = run.notes()["settings"]["bucket_weights"]
    assert len(chosen) == 2
    assert run.logged("mixture") == [{"bucket_weights": chosen}]
    assert run.logged("MRR@10")[-1] >= max(run.logged("MRR@10")[:-1]) - 1e-6
    once = trained(uhd(*({**stage, "validate_every": 0} for stage in stages), validation=validation), "once")
    assert once.logged("mixture") == run.logged("mixture")
    assert len(once.logged("MRR@10")) == 1
    first = trained(uhd(stages[0], validation=validation, mix=False), "first")
    assert run.moved_since(first) == {"bucket-2"}


def test_recorded_training_of_uhd(uhd: Recipes, trained: Trained) -> None:
    run = trained(uhd({**HINGE, "component": "b1", "steps": 3}, {**HINGE, "steps": 3}))
    assert run.logged("loss") == pytest.approx([6.498066, 5.351624, 6.939941, 5.916548, 5.715746, 5.714167], rel=1e-3)
