"""Co-training: the losses of each component, the examples it selects for the other, and the towers that change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from encoders.models.spade import COMPONENTS
from encoders.training.learner import Learner
from encoders.training.recipe import Recipe
from encoders.training.session import Session
from encoders.training.spade import cotrain
from tests.encoders.training.conftest import Recipes, Trained

FirstStage = Callable[[Recipe], Any]

PARTS = {"select_from": 24, "share": 0.3}
OPTIONS = {"cotraining": PARTS, "pointwise": 0.5}
CO = {"steps": 3, "batch_size": 4, "options": OPTIONS}


def losses_by_hand(session: Session, examples: list[Any], name: str, group: int) -> list[float]:
    """Eq. 11 or 12 of each example in plain loops; each ``group`` of examples is one batch."""
    model, losses = session.model, []
    document = model.weighers.part(name).document.eval()

    def vectors(module: Any, texts: list[str], length: int) -> Tensor:
        tokens = model.tokenizer(texts, truncation=True, max_length=length, padding=True, return_tensors="pt")
        with torch.no_grad():
            weights: Tensor = module(tokens["input_ids"], tokens["attention_mask"])
        return weights

    for start in range(0, len(examples), group):
        batch = examples[start : start + group]
        queries = vectors(model.weighers.query, [e.query for e in batch], 8)
        positives = vectors(document, [e.positive for e in batch], 12)
        negatives = vectors(document, [e.negatives[0] for e in batch], 12)
        for row, example in enumerate(batch):
            others = [other for other in range(len(batch)) if batch[other].positive != example.positive]
            scores = [float(queries[row] @ positives[row])]
            scores += [float(queries[row] @ positives[other]) for other in others]
            scores.append(float(queries[row] @ negatives[row]))
            loss = float(torch.tensor(scores).logsumexp(0)) - scores[0]
            if name == "expansion":
                likelihood = positives[row] - positives[row].exp().sum().log()
                loss -= 0.5 * float(queries[row] @ likelihood)
            losses.append(loss)
    return losses


def examples_of(batch: Any) -> list[Any]:
    return [example for examples, _ in batch for example in examples]


@pytest.fixture
def updates(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Component and queries of every update of a test, in order."""
    train, updates = Learner.update, []

    def record(self: Learner, step: int, update: Any, component: str) -> dict[str, float]:
        updates.append((component, [example.query for example in update[0]]))
        return train(self, step, update, component)

    monkeypatch.setattr(Learner, "update", record)
    return updates


def test_each_component_selects_the_hardest_examples_for_the_other(
    first_stage: FirstStage, spade_recipe: Recipes, updates: list[tuple[str, list[str]]]
) -> None:
    session, learner = first_stage(spade_recipe(CO))
    batch = learner.batch(0)
    expected = {}
    for name, other in (("weighting", "expansion"), ("expansion", "weighting")):
        losses = losses_by_hand(session, examples_of(batch), name, group=4)
        selected = sorted(range(24), key=lambda index: -losses[index])[:7]  # 30 % of 24, rounded down
        expected[other] = [examples_of(batch)[index].query for index in sorted(selected)]
    session.model.weighers.train()
    logs = cotrain(learner, 0, batch, learner.stage.options.cotraining)
    trained = {part: [query for name, queries in updates if name == part for query in queries] for part in expected}
    assert trained == expected
    assert expected["weighting"] != expected["expansion"]
    assert [len(queries) for _, queries in updates] == [4, 3, 4, 3]
    assert logs["weighting_selected"] == logs["expansion_selected"] == 7
    assert logs["loss"] == pytest.approx((logs["weighting_loss"] + logs["expansion_loss"]) / 2)


def test_a_component_without_gradient_keeps_its_weights(first_stage: FirstStage, spade_recipe: Recipes) -> None:
    """On several processes, too: Adam moves a parameter by its moments if its gradient is 0, but not without one."""
    session, learner = first_stage(spade_recipe(CO))
    batch, towers = learner.batch(0), session.model.towers
    cotrain(learner, 0, batch, learner.stage.options.cotraining)
    before = {name: [p.detach().clone() for p in towers[name].parameters()] for name in COMPONENTS}
    session.num_processes = 2
    learner.update(0, batch[0], COMPONENTS[0])
    kept = {name: all(map(torch.equal, before[name], towers[name].parameters())) for name in COMPONENTS}
    assert kept == {"weighting": False, "expansion": True}


def test_losses_over_all_examples_equal_those_of_the_stage(first_stage: FirstStage, spade_recipe: Recipes) -> None:
    """A query is ranked against its whole update, however it is cut into micro-batches."""
    session, learner = first_stage(spade_recipe({**CO, "micro_batch_size": 2}))
    batch = learner.batch(0)
    expected = {name: losses_by_hand(session, examples_of(batch), name, 4) for name in COMPONENTS}
    logs = cotrain(learner, 0, batch, learner.stage.options.cotraining)
    for name, losses in expected.items():
        assert logs[f"{name}_loss_over_all"] == pytest.approx(sum(losses) / 24, rel=1e-4)


def test_recorded_cotraining(first_stage: FirstStage, spade_recipe: Recipes, trained: Trained) -> None:
    """Warm-up and co-training with a fixed seed; a change in any part changes these numbers."""
    run = trained(spade_recipe({"component": "weighting", "steps": 2}, {"component": "expansion", "steps": 2}, CO))
    recorded = [2.193035, 2.187833, 2.704918, 2.404154, 3.648524, 3.652616, 4.035214]
    assert run.logged("loss") == pytest.approx(recorded, rel=1e-3)
