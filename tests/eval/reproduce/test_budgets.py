"""Training budgets by hand, against the learner and the architectures, and claims whose rows have different ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.models import ARCHITECTURES
from encoders.training import load_recipe, recipe_names
from eval.reproduce.matrix import Budget, budget_of, load_matrix
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse


def budget(*networks: tuple[int, int], trials: int = 0, mixes: bool = False) -> Budget:
    return Budget(networks=frozenset(networks), trials=trials, mixes=mixes)


@pytest.mark.parametrize(
    ("recipe", "changes", "expected"),
    [
        ("small-splade", ["stages.0.steps=100"], budget((1600, 100))),
        # the gate, then the importance predictor
        ("small-sparterm", ["stages.0.steps=100", "stages.1.steps=60"], budget((1600, 100), (960, 60))),
        ("small-sparterm", ["stages.1.options.joint=true"], budget((2 * 5984, 2 * 374), (5984, 374))),
        # 310 updates alone, and 32 selections of 30 % of 107 examples: 32 each, two updates of 16
        ("small-spade", [], budget((310 * 16 + 32 * 32, 310 + 2 * 32))),
        ("small-spade", ["stages.0.steps=80", "stages.1.steps=40", "stages.2.steps=6"], budget((1472, 92), (832, 52))),
        ("small-uhd", [], budget((5984, 374))),  # three encoders of equal budgets
        # every 50,000 of 150,000 steps
        ("splade-flops", ["validation.every=50000"], budget((18_600_000, 150_000), trials=3)),
        ("splade-flops", ["validation.every=70000"], budget((18_600_000, 150_000), trials=3)),  # and at the end
        (
            "splade-flops", ["validation.every=70000", "stages.0.validate_every=30000"],
            budget((18_600_000, 150_000), trials=5),
        ),
        ("splade-flops", ["validation=null"], budget((18_600_000, 150_000))),
    ],
)  # fmt: skip
def test_budgets_by_hand(recipe: str, changes: list[str], expected: Budget) -> None:
    assert budget_of(load_recipe(recipe, changes=changes)) == expected


def test_selections_are_counted_as_the_learner_counts_them() -> None:
    for select_from, share in ((1024, 0.3), (107, 0.3), (100, 0.29), (2, 0.3)):
        changes = [
            f"stages.2.options.cotraining.{key}={value}"
            for key, value in {"select_from": select_from, "share": share}.items()
        ]
        recipe = load_recipe("small-spade", changes=[*changes, "stages.2.steps=1"])
        assert recipe.stages[2].options.cotraining is not None
        found = {examples - 310 * 16 for examples, _ in budget_of(recipe).networks}
        assert found == {recipe.stages[2].options.cotraining.selected}


def test_mixtures_are_those_of_the_architectures() -> None:
    mixing = set()
    for name in recipe_names():
        recipe = load_recipe(name)
        family = ARCHITECTURES.get(recipe.architecture)
        if family is None:
            continue
        mixtures = family.mixtures(parse(family.settings, dict(recipe.settings), name))
        expected = bool(mixtures) and recipe.mix and recipe.validation is not None
        assert budget_of(recipe).mixes is expected, name
        mixing |= {name} if expected else set()
    assert {"spade", "uhd-bert-separate"} <= mixing


def test_a_budget_in_words() -> None:
    assert str(budget((1600, 100), trials=1)) == "1,600 examples in 100 updates, 1 dev trials"
    text = "52 examples in 2 updates and 1,600 examples in 100 updates, 3 dev trials and a mixture"
    assert str(budget((1600, 100), (52, 2), trials=3, mixes=True)) == text


def load(folder: Path, changes: list[str], **claim: Any) -> None:
    content = {
        "title": "Mine",
        "columns": {"pydoc": {"collection": "pydoc", "split": "test", "measures": ["MRR@10"]}},
        "rows": {
            "BM25": {"bm25": "text"},
            "SPLADE": {"recipe": "small-splade"},
            "other": {"recipe": "small-splade", "changes": ["settings.pooling=sum", *changes]},
            "same weights": {"model": "other", "encode": {"pooling": "max"}},
        },
        "claims": [
            {"source": "", "better": "SPLADE", "worse": "other", "quantity": "MRR@10", "margin": 0.01, **claim},
            {"source": "", "better": "SPLADE", "worse": "BM25", "quantity": "MRR@10", "margin": 0.01},
            {"source": "", "better": "same weights", "worse": "other", "quantity": "MRR@10", "margin": 0.01},
        ],
    }
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    load_matrix(path, folder)


def test_rows_of_a_claim_are_trained_on_as_much(tmp_path: Path) -> None:
    load(tmp_path, [])
    for changes, text in (
        (
            ["stages.0.steps=60"],
            "'SPLADE' is trained on 5,984 examples in 374 updates, 0 dev trials, 'other' on 960 examp",
        ),
        (["stages.0.batch_size=8"], "'other' on 2,992 examples in 374 updates, 0 dev trials"),
        (
            ["validation={collection: pydoc, split: dev, every: 374}"],
            "'other' on 5,984 examples in 374 updates, 1 dev tri",
        ),
    ):
        with pytest.raises(LearnedSparseError, match=text) as error:
            load(tmp_path, changes)
        assert "mine.yaml: claims[0]: " in str(error.value)
        assert 'give the recipes equal budgets, or the claim unequal: "REASON"' in str(error.value)
        load(tmp_path, changes, unequal="a reason")
    with pytest.raises(LearnedSparseError, match="the budgets of its rows are equal; leave 'unequal' out"):
        load(tmp_path, [], unequal="a reason")
