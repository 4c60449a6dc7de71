"""Results of a leaderboard that is measured in parts, on several machines."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval.reproduce.claims import Claim
from eval.reproduce.leaderboard import VALUES, kept_cells, write_leaderboard
from eval.reproduce.leaderboard import cells as cells_module
from eval.reproduce.matrix import BM25Row, CheckpointRow, Column, Matrix, RecipeRow
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.steps import VERSIONS, Step
from learned_sparse.core.files import home

ONE, TWO = {"MRR@10": [0.5, 0.25, 0.0, 1.0]}, {"MRR@10": [1.0, 0.5, 0.5, 1.0]}
MATRIX = Matrix(
    title="Small",
    about="Three rows.",
    columns={"toy": Column(collection="{data}/toy", split="test"), "other": Column(collection="pydoc", split="test")},
    rows={
        "BM25": BM25Row(bm25="text"),
        "ours": RecipeRow(recipe="small-splade", seeds=(1, 2)),
        "half": CheckpointRow(checkpoint="half"),
    },
    baseline="BM25",
    claims=(Claim(source="A", better="ours", worse="BM25", quantity="MRR@10"),),
)


@dataclasses.dataclass(frozen=True)
class Written:
    """A leaderboard on the machine where it was measured."""

    plan: Plan
    results: dict[str, Any]
    folder: Path

    @property
    def cells(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(cell["row"], cell["column"]): cell for cell in self.results["cells"]}


@pytest.fixture
def written(cell: Callable[..., CellPlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """A leaderboard with a cell of two trainings, one that failed, and one that is not done."""
    monkeypatch.setattr(cells_module, "training_budget", lambda checkpoint: {"of": checkpoint.name})
    cells = (
        cell("BM25", ONE, ms=2.0),
        cell("ours", TWO, seed=1, ms=5.0),
        cell("ours", ONE, seed=2, ms=7.0),
        cell("half", TWO),
        cell("BM25", ONE, column="other"),
        cell("half", ONE, column="other", broken=True),
        cell("ours", None, column="other", seed=1),
    )
    plan = Plan(name="small", matrix=MATRIX, data=tmp_path / "data", steps=(), cells=cells)
    folder = tmp_path / "results"
    return Written(plan, write_leaderboard(plan, folder, "python -m eval.reproduce --matrix small"), folder)


def test_cells_are_kept_from_results(written: Written, tmp_path: Path) -> None:
    """As on another machine, where no step is done."""
    done = {pair for pair, cell in written.cells.items() if cell["status"] == "done"}
    kept = kept_cells(written.plan, written.folder)
    assert set(kept) == done == {("BM25", "toy"), ("ours", "toy"), ("half", "toy"), ("BM25", "other")}
    shutil.rmtree(home())
    folder = tmp_path / "again"
    results = write_leaderboard(written.plan, folder, written.results["command"], kept)
    assert [cell["status"] for cell in results["cells"]].count("failed") == 0  # it is not known here
    for key in set(results) - {"cells"}:
        assert results[key] == written.results[key], key
    for cell in results["cells"]:
        pair = cell["row"], cell["column"]
        assert cell["status"] != "done" or cell == written.cells[pair]
        assert (cell["status"] == "done") == (pair in done)
    assert (folder / VALUES).read_bytes() == (written.folder / VALUES).read_bytes()
    assert set(kept_cells(written.plan, folder)) == done


def test_cells_with_other_inputs_are_not_kept(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    def renewed(cell: CellPlan) -> tuple[Step, ...]:
        return tuple(dataclasses.replace(step) for step in cell.steps)

    def with_other_words(cell: CellPlan) -> CellPlan:
        steps = [dataclasses.replace(step, arguments=(*step.arguments, "--other")) for step in cell.steps]
        return dataclasses.replace(cell, steps=tuple(steps))

    def kept_with(change: Callable[[CellPlan], CellPlan]) -> set[str]:
        plan = dataclasses.replace(written.plan, cells=tuple(map(change, written.plan.cells)))
        return {row for row, column in kept_cells(plan, written.folder) if column == "toy"}

    assert kept_with(lambda cell: cell) == {"BM25", "ours", "half"}
    assert kept_with(lambda cell: with_other_words(cell) if cell.seed == 2 else cell) == {"BM25", "half"}
    monkeypatch.setitem(VERSIONS, "evaluate", 2)
    assert kept_with(lambda cell: dataclasses.replace(cell, steps=renewed(cell))) == set()
