"""SpaDE in training: which parameters get gradients, pruned terms, and settings that the checkpoint stores."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from encoders.checkpoints.tokenizer import Vocabulary
from encoders.encoding.model import LoadedModel, load_checkpoint, save_checkpoint
from encoders.models.spade import SpaDESettings, TermPruning
from tests.encoders.models.heads import PAIRS, inputs, untrained
from tests.tiny_models import VOCABULARY, tokenizer

WORDS = Vocabulary.from_tokenizer(tokenizer(), len(VOCABULARY))
ALL = torch.ones(len(WORDS.terms), dtype=torch.bool)


def documents(model: LoadedModel, component: str | None = None) -> Tensor:
    module: Any = model.weighers.document
    weights: Tensor = (module if component is None else module.components[component])(*inputs(model, PAIRS))
    return weights


@pytest.mark.parametrize(("alpha", "component"), [(0.0, "weighting"), (1.0, "expansion")])
def test_training_one_component_gives_the_other_no_gradient(alpha: float, component: str, tiny_bert: Path) -> None:
    """Also by its share in the whole: a component with share 0 is not computed."""
    for settings, trained, expected in (
        ({}, component, {component}),
        ({"alpha": alpha}, None, {component}),
        ({}, None, {"weighting", "expansion"}),
    ):
        model = untrained("spade", settings, tiny_bert)
        documents(model, trained).sum().backward()
        parameters = {name: tower.parameters() for name, tower in model.towers.items()}
        assert {name for name in parameters if any(each.grad is not None for each in parameters[name])} == expected


def test_pruned_terms_get_no_gradient_and_are_counted(tiny_bert: Path) -> None:
    """Counted after pruning, a pruned term would have no weight, seem rare and be restored."""
    model = untrained("spade", {}, tiny_bert)
    before, document = documents(model, "expansion"), cast(Any, model.weighers.document)
    whole = (documents(model) > 0).float().mean(0)
    shares = (before > 0).float().mean(0)
    document.pruning.update(shares, 0.5)
    weights = documents(model, "expansion")
    weights.sum().backward()
    rare = shares <= 0.5
    assert torch.equal(document.pruning.kept, rare)
    assert 0 < (~rare).sum() < (shares > 0).sum()
    assert not weights[:, ~rare].any()
    assert not model.towers["expansion"].decoder.bias.grad[~rare].any()
    torch.testing.assert_close(weights[:, rare], before[:, rare])
    parts = [part.unpruned(*inputs(model, PAIRS)) > 0 for part in document.components.values()]
    torch.testing.assert_close((parts[0] | parts[1]).float().mean(0), whole)


def shares_of(**shares: float) -> Tensor:
    return torch.tensor([shares.get(term, 0.0) for term in VOCABULARY])


def pruned(pruning: TermPruning) -> list[str]:
    return [VOCABULARY[column] for column in (~pruning.kept).nonzero().flatten().tolist()]


def test_a_share_of_exactly_gamma_is_kept() -> None:
    """A share of 7 in 10 documents is not above 0.7 despite float rounding; 70,001 in 100,000 is."""
    pruning, shares = TermPruning(WORDS, ALL, {}, 1.0), shares_of(wing=7 / 10, lift=70_001 / 100_000, drag=3 / 10)
    pruning.update(shares, 0.7)
    assert pruned(pruning) == ["lift"]
    pruning.update(shares.bfloat16().float(), 0.3)
    assert {"wing", "lift"} <= set(pruned(pruning))
    pruning.update(shares, 0.3)
    assert pruned(pruning.to(torch.bfloat16)) == ["wing", "lift"]


def test_cumulative_pruning_keeps_pruned_terms_pruned() -> None:
    first, second = shares_of(wing=0.9, lift=0.75), shares_of(lift=0.6, drag=0.8)
    for cumulative, expected in ((True, ["wing", "lift", "drag"]), (False, ["drag"])):
        pruning = TermPruning(WORDS, ALL, {}, 1.0)
        assert pruning.update(first, 0.7) == 2
        assert pruning.update(second, 0.7, cumulative=cumulative) == len(expected)
        assert pruned(pruning) == expected


def test_the_checkpoint_stores_learned_settings(tiny_bert: Path, tmp_path: Path) -> None:
    model = untrained("spade", {"k": 4}, tiny_bert)
    module: Any = model.weighers.document
    shares = torch.rand(len(VOCABULARY), generator=torch.Generator().manual_seed(0))
    module.pruning.update(shares, 0.7)
    learned = module.pruning.learned()
    assert learned["gamma"] == 0.7
    assert all(share >= 0.05 for share in learned["frequencies"].values())
    assert list(learned["frequencies"].values()) == sorted(learned["frequencies"].values(), reverse=True)
    model.settings = dataclasses.replace(model.settings, **learned, alpha=0.4)
    save_checkpoint(tmp_path, model)
    loaded = load_checkpoint(tmp_path)
    loaded.weighers.eval()
    document: Any = loaded.weighers.document
    assert torch.equal(document.pruning.kept, module.pruning.kept)
    assert document.pruning.learned() == learned
    expected = 0.6 * documents(model, "weighting") + 0.4 * documents(model, "expansion")
    torch.testing.assert_close(documents(loaded), expected)


def test_alpha_is_chosen_in_tenths() -> None:
    assert [changes["alpha"] for changes, _ in SpaDESettings().mixtures()] == [tenth / 10 for tenth in range(11)]
    assert SpaDESettings(components="weighting").mixtures() == ()


def test_dimensions_without_a_term_are_not_recorded() -> None:
    """A model may have more outputs than its tokenizer has tokens."""
    wide = Vocabulary.from_tokenizer(tokenizer(), len(VOCABULARY) + 2)
    pruning = TermPruning(wide, torch.ones(len(wide.terms), dtype=torch.bool), {}, 1.0)
    pruning.update(torch.full((len(wide.terms),), 0.5), 0.5)
    assert list(pruning.learned()["frequencies"]) == VOCABULARY


def test_frequencies_in_millionths_survive_float_rounding() -> None:
    """0.062507 times a million is 62506.99..."""
    pruning = TermPruning(WORDS, ALL, {"wing": 0.062507}, 0.062507)
    assert pruning.learned() == {"gamma": 0.062507, "frequencies": {"wing": 0.062507}}
