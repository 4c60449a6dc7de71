"""Training budgets: the rows of a claim are trained on as much, or the claim says why not."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from encoders.training import Recipe, SparTermOptions, load_recipe, spade_options
from eval.reproduce.claims import Claim
from eval.reproduce.matrix.definition import Matrix, Row, Training
from learned_sparse.core.errors import LearnedSparseError

if TYPE_CHECKING:
    from encoders.training import Stage

_WHOLE, _GATE = "model", "gate"


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a training may use; equal for two rows that a claim compares.

    It is counted for each network, not added up: a system of two encoders trains two, which is part of the system. This
    choice is ours.
    """

    networks: frozenset[tuple[int, int]]
    """Training queries seen and updates made, of each network; equal ones once."""
    trials: int
    """Validations on dev queries, among which the best weights are chosen."""
    mixes: bool
    """Whether weights of components are chosen on dev queries."""

    def __str__(self) -> str:
        parts = [f"{examples:,} examples in {updates:,} updates" for examples, updates in sorted(self.networks)]
        dev = f"{self.trials:,} dev trials{' and a mixture' if self.mixes else ''}"
        return f"{' and '.join(parts)}, {dev}"


def recipe_of(row: Row, training: Training | None) -> Recipe:
    """The recipe of a row on the training data of its matrix."""
    data = training.data if training else ()
    recipe = load_recipe(str(row.recipe), changes=row.changes, data=data)
    if training is None or training.validation is None or recipe.validation is None:
        return recipe
    return dataclasses.replace(
        recipe, validation=dataclasses.replace(recipe.validation, collection=training.validation)
    )


def budget_of(recipe: Recipe) -> Budget:
    """Examples, updates and dev trials of a recipe."""
    networks: dict[str, list[int]] = {name: [0, 0] for stage in recipe.stages for name in _named(stage)}
    for stage in recipe.stages:
        examples, updates = _step(stage)
        for name in _trained(stage, networks):
            counts = networks.setdefault(name, [0, 0])
            counts[0] += examples * stage.steps
            counts[1] += updates * stage.steps
    return Budget(
        networks=frozenset((examples, updates) for examples, updates in networks.values()),
        trials=_trials(recipe),
        mixes=recipe.validation is not None and recipe.mix and _has_components(recipe),
    )


class Budgets(dict[str, Budget | None]):
    """Budgets by row, each computed when it is first asked for; None for rows that are not trained here."""

    def __init__(self, matrix: Matrix) -> None:
        super().__init__()
        self._matrix = matrix

    def __missing__(self, name: str) -> Budget | None:
        row = self._matrix.rows[name]
        if row.model is not None:
            self[name] = self[row.model]
        else:
            self[name] = None if row.recipe is None else budget_of(recipe_of(row, self._matrix.training))
        return self[name]


def check_budgets(claim: Claim, rows: Sequence[str], of_rows: Budgets, where: str) -> None:
    """Raise if the trainings of a claim's rows differ and the claim does not say why, or the other way round.

    Rows that are not trained here have no budget. Checkpoints say nothing reliable about theirs.
    """
    budgets = {row: budget for row in rows if (budget := of_rows[row]) is not None}
    differ = len(set(budgets.values())) > 1
    if differ and claim.unequal is None:
        first = next(iter(budgets))
        other = next(row for row in budgets if budgets[row] != budgets[first])
        raise LearnedSparseError(
            f"{where}: {first!r} is trained on {budgets[first]}, {other!r} on {budgets[other]}; give the recipes equal "
            'budgets, or the claim unequal: "REASON"'
        )
    if claim.unequal is not None and not differ:
        raise LearnedSparseError(f"{where}: the budgets of its rows are equal; leave 'unequal' out")


def _trained(stage: Stage, networks: Iterable[str]) -> list[str]:
    """The networks that a stage trains: those that it names, or all components, or the model as a whole."""
    if named := _named(stage):
        return named
    components = [name for name in networks if name not in {_WHOLE, _GATE}]
    return [
        *(components or [_WHOLE]),
        *([_GATE] if isinstance(stage.options, SparTermOptions) and stage.options.joint else []),
    ]


def _named(stage: Stage) -> list[str]:
    """The networks that a stage names; SparTerm's gate by its objective."""
    if (cotraining := spade_options(stage).cotraining) is not None:
        return list(cotraining.components)
    if stage.component is not None:
        return [stage.component]
    return [stage.objective] if stage.objective != "rank" else []


def _step(stage: Stage) -> tuple[int, int]:
    """Examples and updates of one step, of each network."""
    if (cotraining := spade_options(stage).cotraining) is None:
        return stage.batch_size, 1
    selected = cotraining.selected
    return selected, math.ceil(selected / stage.batch_size)


def _has_components(recipe: Recipe) -> bool:
    """Whether the architecture mixes components: SpaDE's two encoders, UHD-BERT's buckets."""
    if recipe.architecture == "spade":
        return bool(recipe.settings.get("components", "both") == "both")
    return recipe.architecture == "uhd" and len(recipe.settings.get("layers", (1, 2))) > 1


def _trials(recipe: Recipe) -> int:
    """Validations: every so many steps and at the end of each stage that ranks."""
    validation = recipe.validation
    if validation is None:
        return 0
    stages = [stage for stage in recipe.stages if stage.objective == "rank" and stage.validate_every != 0]
    intervals = [(stage.steps, stage.validate_every or validation.every) for stage in stages]
    return sum(math.ceil(steps / every) for steps, every in intervals)
