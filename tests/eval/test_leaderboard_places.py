"""A leaderboard names what lies in the data folder, and not where that folder is."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.reproduce.leaderboard import leaderboard
from eval.reproduce.matrix import Column, Matrix, Row
from eval.reproduce.plan import Plan
from learned_sparse.collections import data_root


@pytest.mark.parametrize("data", [Path("somewhere/else"), None])
@pytest.mark.parametrize("kind", ["run", "checkpoint"])
def test_what_is_given_is_named_without_its_place(data: Path | None, kind: str) -> None:
    folder = data or data_root()
    given = Row(run=f"{folder}/mine") if kind == "run" else Row(checkpoint=f"{folder}/mine")
    columns = {"toy": Column(collection=f"{folder}/toy", split="test")}
    matrix = Matrix(title="", about="", columns=columns, rows={"given": given})
    found = leaderboard(Plan(name="m", matrix=matrix, data=data, steps=(), cells=()), {}, "")
    assert [row["source"] for row in found["rows"]] == ["mine"]
    assert [column["collection"] for column in found["columns"]] == ["toy"]
