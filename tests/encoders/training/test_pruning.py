"""Pruning in training: document frequencies by hand, windows, schedule, saved counts and the final checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from encoders.training.recipe import Pruning
from encoders.training.spade import Pruner
from tests.encoders.training.conftest import Recipes, Trained


class Table(nn.Module):
    """Weights of a text are the sum of the table rows of its token ids, so that results can be checked by hand."""

    def __init__(self, rows: list[list[float]]) -> None:
        super().__init__()
        self.rows = torch.tensor(rows)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return (self.rows[input_ids] * attention_mask.unsqueeze(2)).sum(dim=1)


class Document:
    """Two tables as the components of a SpaDE; records the frequencies that are set."""

    def __init__(self) -> None:
        tables = {"one": Table([[1, 0, 0, 0], [0, 2, 0, 0]]), "two": Table([[0, 0, 3, 0], [0, 0, 3, 0]])}
        self.components = {name: SimpleNamespace(unpruned=table) for name, table in tables.items()}
        self.pruning, self.pruned = self, list[tuple[list[float], float]]()

    def update(self, shares: Tensor, gamma: float, *, cumulative: bool) -> int:
        self.pruned.append((shares.tolist(), gamma))
        return int((shares > gamma).sum())


FIRST = torch.tensor([[0], [1], [1], [1]])
SECOND = torch.tensor([[0], [0]])


def feed(document: Document, ids: Tensor, *names: str) -> None:
    for name in names:
        document.components[name].unpruned(ids, torch.ones_like(ids))


def test_windows_and_schedule() -> None:
    """A window is two steps, each document counts once with the terms of all components, gamma follows the schedule."""
    document: Any = Document()
    pruner = Pruner(Pruning(gamma=(0.9, 0.7, 0.5), window=2), document, lambda tensor: tensor)
    results = []
    for step in range(8):
        with pruner.counting():
            feed(document, SECOND if step % 2 else FIRST, "one", "two")
        feed(document, SECOND, "one")  # outside counting()
        results.append(pruner.after(step))
    assert [step for step, (logs, _) in enumerate(results) if logs] == [1, 3, 5, 7]
    # four documents 0, 1, 1, 1 and two documents 0, 0
    assert document.pruned == [([0.5, 0.5, 1.0, 0.0], gamma) for gamma in (0.9, 0.7, 0.5, 0.5)]
    assert [logs["pruned_terms"] for logs, _ in results if logs] == [1, 1, 1, 1]
    assert [restart for logs, restart in results if logs] == [True, True, True, False]


def test_cotraining_with_and_without_selection_counts_the_same(spade_recipe: Recipes, trained: Trained) -> None:
    """A learning rate of 0 keeps the model fixed, so the same documents have the same terms."""
    pruning = {"pruning": {"gamma": [0.5], "window": 2}}
    stage = {"steps": 2, "batch_size": 4, "learning_rate": 0.0, "dropout": False, "options": pruning}
    changes: dict[str, dict[str, Any]] = {
        f"run-{share}": {"options": {**pruning, "cotraining": {"select_from": 12, "share": share}}}
        for share in (0.3, 1.0)
    }
    changes["joint"] = {"batch_size": 12}
    runs = [trained(spade_recipe({**stage, **change}), name) for name, change in changes.items()]
    frequencies = [run.notes()["settings"]["frequencies"] for run in runs]
    assert frequencies[0] == frequencies[1] == frequencies[2]


def test_a_smaller_gamma_discards_the_best_score(
    spade_recipe: Recipes, trained: Trained, tiny_collection: Any, scores: Callable[..., None]
) -> None:
    validation = {"collection": str(tiny_collection), "every": 1, "queries": None}
    pruning = {"gamma": [0.6], "window": 2}
    stage = {"steps": 4, "batch_size": 8, "options": {"pruning": pruning}}
    scores(0.9, 0.2, 0.3, 0.1, mixture={"alpha": 0.4})
    run = trained(spade_recipe(stage, validation=validation))
    assert run.notes()["training"]["best_step"] == 3
    assert run.notes()["settings"]["alpha"] == 0.4
