"""Results of a leaderboard from handmade files: means, verdicts, p-values against SciPy's, claims, missing cells."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import scipy.stats

from encoders.training.recipe import load_recipe, to_mapping
from eval.reproduce import results as results_module
from eval.reproduce import steps as steps_module
from eval.reproduce.claims import COSTS, Claim
from eval.reproduce.matrix import Column, Matrix, Row, Sample
from eval.reproduce.plan import CellPlan, Plan
from eval.reproduce.results import (
    RESULTS,
    VALUES,
    examples_of,
    exit_status,
    leaderboard,
    measured,
    write_leaderboard,
)
from eval.reproduce.steps import Step
from learned_sparse.collections.collection import data_root
from learned_sparse.core.files import home, write_json

BM25 = {"MRR@10": [0.5, 0.25, 0.0, 1.0, 0.5, 0.2], "R@100": [1.0, 0.5, 0.5, 1.0, 1.0, 0.0]}
FIRST = {"MRR@10": [1.0, 0.5, 0.5, 1.0, 1.0, 0.5], "R@100": [1.0, 0.5, 0.5, 1.0, 1.0, 0.0]}
SECOND = {"MRR@10": [1.0, 0.5, 0.25, 0.5, 1.0, 0.25], "R@100": [1.0, 1.0, 0.5, 1.0, 1.0, 0.0]}
OTHER = {"MRR@10": [0.5, 0.25, 0.0, 1.0, 0.5, 0.25], "R@100": [1.0, 0.5, 0.0, 1.0, 1.0, 0.0]}
SPLADE = {"MRR@10": 0.340, "FLOPS": 0.731}
MATRIX = Matrix(
    title="Small",
    about="Four rows.",
    columns={
        "toy": Column(collection="{data}/toy", split="test", measures=("MRR@10", "R@100")),
        "other": Column(collection="pydoc", split="test", sample=Sample(pool=10)),
    },
    rows={
        "BM25": Row(bm25="text", expected={"toy": {"MRR@10": 0.4083, "R@100": 0.6}}, tolerance=0.01),
        "ours": Row(recipe="small-splade", seeds=(1, 2), curve="ours", note="two seeds"),
        "half": Row(model="ours", queries={"query_k": 5}),
        "SPLADE": Row(published="SPLADE, Table 1", scores={"toy": SPLADE}),
    },
    baseline="BM25",
    claims=(
        Claim(source="A", better="ours", worse="BM25", quantity="MRR@10", published=(0.22, 0.2)),
        Claim(source="B", better="half", worse="ours", quantity="FLOPS", kind="less", columns=("toy",)),
        Claim(source="C", better="half", worse="BM25", quantity="ms/query", kind="less", columns=("toy",)),
        Claim(source="D", better="half", worse="BM25", quantity="nDCG@10"),
        Claim(source="A: in words", better="half", worse="BM25", quantity="MRR@10", columns=("toy",)),
        Claim(source="E", better="ours", worse="SPLADE", quantity="MRR@10", columns=("toy",)),
    ),
)


@dataclasses.dataclass(frozen=True)
class Written:
    """The results of a leaderboard, their folder, and the cells by row and column."""

    results: dict[str, Any]
    folder: Path

    @property
    def cells(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(cell["row"], cell["column"]): cell for cell in self.results["cells"]}


@pytest.fixture
def written(cell: Callable[..., CellPlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    """A leaderboard with cells of every kind."""
    monkeypatch.setattr(results_module, "training_budget", lambda checkpoint: {"of": checkpoint.name, "examples": 960})
    for seed in (1, 2):
        path = home() / "reproduce" / "times" / "encode" / "toy" / f"ours-{seed}.json"
        write_json(path, {"documents": 120, "seconds": 4.0})
    cells = (
        cell("BM25", BM25, seed=None, ms=2.0),
        cell("ours", FIRST, seed=1, FLOPS=2.0, ms=5.0),
        cell("ours", SECOND, seed=2, FLOPS=3.0, ms=7.0),
        cell("half", OTHER, FLOPS=1.2),
        cell("BM25", {"nDCG@10": [0.5, 0.75]}, column="other"),
        cell("ours", {"nDCG@10": [1.0, 1.0]}, column="other", seed=1),
        cell("ours", None, column="other", seed=2),
        cell("half", {"nDCG@10": [0.25, 0.75]}, column="other", broken=True),
    )
    toy = dataclasses.replace(MATRIX.columns["toy"], collection=f"{tmp_path}/data/toy")
    matrix = dataclasses.replace(MATRIX, columns=MATRIX.columns | {"toy": toy})
    plan = Plan(name="small", matrix=matrix, data=tmp_path / "data", cells=cells)
    folder = tmp_path / "results"
    results = write_leaderboard(plan, folder, "python -m eval.reproduce --matrix small")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_leaderboard(plan, folder, "python -m eval.reproduce --matrix small")
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}  # no dates, no randomness
    assert json.loads(before[RESULTS]) == results
    return Written(results, folder)


def test_provenance_is_that_of_the_time_when_a_step_ran(
    cell: Callable[..., CellPlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_module, "_values", lambda _, key: ["processor of the run"] * (key == "model name"))
    monkeypatch.setattr(steps_module, "versions", lambda: {"torch": "1"})
    cells = [cell("BM25", BM25)]
    monkeypatch.setattr(steps_module, "_values", lambda _, key: ["processor of the report"] * (key == "model name"))
    monkeypatch.setattr(steps_module, "versions", lambda: {"torch": "2"})
    cells.append(cell("BM25", {"nDCG@10": [0.5, 0.75]}, column="other"))
    matrix = dataclasses.replace(MATRIX, rows={"BM25": Row(bm25="text")}, claims=())
    plan = Plan(name="m", matrix=matrix, data=tmp_path, cells=tuple(cells))
    results, _ = leaderboard(plan, "")
    stored = results["provenance"]
    used = {cell["column"]: [stored[number] for number in cell["provenance"]] for cell in results["cells"]}
    assert [(one["processor"], one["versions"]["torch"]) for one in used["toy"]] == [("processor of the run", "1")]
    assert [(one["processor"], one["versions"]["torch"]) for one in used["other"]] == [("processor of the report", "2")]
    assert used["toy"][0].keys() == {"commit", "versions", "host", "processor", "gpus"}
    assert results["versions"]["torch"] == "2 and 1"
    assert results["processor"] == "processor of the report; processor of the run"
    assert [cell["seconds"] for cell in results["cells"]] == [10.0, 10.0]


def test_cells_are_means_over_seeds(written: Written) -> None:
    cells = written.cells
    assert len(cells) == 4 * 2
    ours = cells["ours", "toy"]
    assert ours["status"] == "done"
    # 4.5 / 6 and 3.5 / 6, as trec_eval rounds them; the deviation of two is their distance by the root of 2
    assert ours["scores"]["MRR@10"] == pytest.approx((0.75 + 0.5833) / 2)
    assert ours["spread"]["MRR@10"] == pytest.approx((0.75 - 0.5833) / 2**0.5, abs=1e-6)
    assert cells["BM25", "toy"]["spread"] is None
    assert ours["costs"] == dict.fromkeys(COSTS, None) | {"FLOPS": 2.5, "ms/query": 6.0, "documents/s": 30.0}
    assert cells["BM25", "other"]["costs"] is None
    table = pd.read_csv(written.folder / VALUES)
    assert list(table.columns) == ["column", "training", "measure", "query", "BM25", "half", "ours"]
    counts = table.groupby(["column", "training"]).count()[["BM25", "half", "ours"]]
    assert counts.T.to_dict("list") == {("other", 1): [2, 0, 0], ("toy", 1): [12, 12, 12], ("toy", 2): [0, 0, 12]}
    chosen = table[(table["training"] == 2) & (table["measure"] == "MRR@10")]
    assert chosen["ours"].tolist() == SECOND["MRR@10"]


def test_an_average_weighs_columns_equally(
    cell: Callable[..., CellPlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "training_budget", lambda checkpoint: {})
    rows = {
        "BM25": Row(bm25="text"),
        "ours": Row(recipe="small-splade"),
        "half": Row(model="ours", columns=("toy",)),
    }
    matrix = dataclasses.replace(MATRIX, rows=rows, averages={"mean": ("toy", "other")}, claims=(
        Claim(source="A", better="ours", worse="BM25", quantity="MRR@10", columns=("mean",)),
    ))  # fmt: skip
    cells = (
        cell("BM25", BM25),
        cell("BM25", {"MRR@10": [0.5, 0.0]}, column="other"),
        cell("ours", FIRST),
        cell("ours", {"MRR@10": [1.0, 0.25]}, column="other"),
        cell("half", FIRST),
    )
    plan = Plan(name="m", matrix=matrix, data=tmp_path, cells=cells)
    results, _ = leaderboard(plan, "")
    found = {cell["row"]: cell for cell in results["cells"] if cell["column"] == "mean"}
    # 2.45 / 6 and 4.5 / 6; R@100 is in one column only
    assert found["BM25"]["scores"] == {"MRR@10": pytest.approx((2.45 / 6 + 0.25) / 2, abs=1e-6)}
    assert found["ours"]["scores"] == {"MRR@10": pytest.approx((0.75 + 0.625) / 2)}
    assert found["half"]["status"] == "left out"
    (claim,) = results["claims"]
    assert claim["difference"] == pytest.approx(((4.5 - 2.45) / 6 + 0.375) / 2, abs=1e-6)
    (described,) = (column for column in results["columns"] if column["name"] == "mean")
    assert (described["average"], described["measures"], described["queries"]) == (["toy", "other"], ["MRR@10"], 8)


def test_an_upper_bound_is_not_tested(cell: Callable[..., CellPlan], tmp_path: Path) -> None:
    rows = {
        "BM25": Row(bm25="text"),
        "half": Row(checkpoint="half"),
        "best": Row(best_of=("BM25", "half"), best_by="P@1"),
    }
    matrix = dataclasses.replace(MATRIX, rows=rows, claims=())
    cells = (cell("BM25", BM25), cell("half", FIRST), cell("best", FIRST))
    results, _ = leaderboard(Plan(name="m", matrix=matrix, data=tmp_path, cells=cells), "")
    p = {one["row"]: one["p"] for one in results["cells"] if one["column"] == "toy"}
    assert p["best"] == {}
    assert p["half"]["MRR@10"] == pytest.approx(scipy.stats.ttest_rel(FIRST["MRR@10"], BM25["MRR@10"]).pvalue, abs=1e-6)


def test_cells_that_are_not_done_have_no_numbers(written: Written) -> None:
    cells = written.cells
    for row, status, error in (("ours", "absent", None), ("half", "failed", "{home}/costs: no room")):
        assert (cells[row, "other"]["status"], cells[row, "other"]["error"]) == (status, error)
        assert cells[row, "other"]["scores"] == {}
        assert cells[row, "other"]["commands"] != []
    assert exit_status(written.results, {("half", "other")}) == 1
    assert exit_status(written.results, {("half", "toy")}) == 0  # another column's failure


def test_a_missing_file_fails_a_cell(cell: Callable[..., CellPlan], tmp_path: Path) -> None:
    done = cell("given", BM25)
    missing = Step(
        kind="evaluate", module="eval.evaluate", arguments=(), name="evaluate/absent", output=tmp_path / "absent",
        reads=(tmp_path / "data" / "run.txt",), data=tmp_path / "data",
    )  # fmt: skip
    failed, _ = measured([dataclasses.replace(done, run=dataclasses.replace(done.run, costs=missing))])
    assert (failed["status"], failed["error"]) == ("failed", "{data}/run.txt: no such file or folder")
    assert measured([done])[0]["status"] == "done"


def test_commands_and_files_have_no_paths_of_the_machine(written: Written, tmp_path: Path) -> None:
    assert written.cells["BM25", "toy"]["commands"][:2] == [
        "python -m eval.encode --collection {data}/toy --output learned_sparse_home/encode/toy/bm25-none.json",
        "python -m eval.evaluate --output learned_sparse_home/evaluate/toy/bm25-none.json",
    ]
    assert len(written.cells["ours", "toy"]["commands"]) == 2 * 3
    for path in written.folder.iterdir():
        content = path.read_bytes()
        assert str(tmp_path).encode() not in (gzip.decompress(content) if path.suffix == ".gz" else content)


def test_expected_scores_decide_the_exit_status(written: Written) -> None:
    bm25 = written.cells["BM25", "toy"]
    assert bm25["verdicts"] == {"MRR@10": "equal", "R@100": "better"}  # 2.45 / 6 and 4 / 6
    assert bm25["expected"] == {"MRR@10": 0.4083, "R@100": 0.6}
    chosen = {("BM25", "toy")}
    assert exit_status({"cells": [bm25]}, chosen) == 1  # too good: other data, or other settings
    assert exit_status({"cells": [bm25 | {"verdicts": {"MRR@10": "equal", "R@100": "within tolerance"}}]}, chosen) == 0
    assert exit_status({"cells": [bm25 | {"verdicts": {"MRR@10": "worse"}}]}, chosen) == 1
    assert exit_status({"cells": [bm25 | {"status": "failed"}]}, chosen) == 1
    assert exit_status({"cells": [bm25 | {"status": "failed"}]}, set()) == 0
    assert exit_status({"cells": [bm25 | {"status": "absent", "verdicts": {}}]}, chosen) == 0


@pytest.mark.parametrize("data", [Path("somewhere/else"), None])
def test_sources_are_named_without_the_data_folder(data: Path | None) -> None:
    folder = data or data_root()
    columns = {"toy": Column(collection=f"{folder}/toy", split="test")}
    matrix = Matrix(title="", columns=columns, rows={"given": Row(run=f"{folder}/mine")})
    results, _ = leaderboard(Plan(name="m", matrix=matrix, data=data, cells=()), "")
    assert [row["source"] for row in results["rows"]] == ["mine"]
    assert [column["collection"] for column in results["columns"]] == ["toy"]


@pytest.mark.parametrize(
    ("recipe", "changes", "expected"),
    [
        ("splade-flops", [], 18_600_000),
        ("sparterm-expansion", [], 12_800_000),  # the gate sees half as many
        ("spade", ["stages.2.steps=2240"], 32_000 * 32 + 2240 * 307),  # both encoders see as many
        ("small-spade", [], 5984),
    ],
)
def test_training_examples_of_a_recipe(recipe: str, changes: list[str], expected: int) -> None:
    assert examples_of(to_mapping(load_recipe(recipe, changes=changes))["stages"]) == expected
