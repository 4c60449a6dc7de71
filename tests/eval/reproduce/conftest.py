"""Handmade cells of leaderboards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from eval.reproduce.claims import COSTS
from eval.reproduce.plan import CellPlan, Run
from eval.reproduce.steps import Kind, Step, write_end
from learned_sparse.core.files import home

Values = Mapping[str, list[float]]
"""Measure → value of each query."""


@pytest.fixture
def cell(tmp_home: Path) -> Callable[..., CellPlan]:
    """A function that makes a cell and the output files of its steps; with ``broken``, the last step failed."""

    def make(
        row: str, values: Values | None, *, column: str = "toy", seed: int | None = None, broken: bool = False,
        **costs: float,
    ) -> CellPlan:  # fmt: skip
        name = f"{row}-{seed}".lower()
        data = tmp_home.parent / "data"

        def step(kind: Kind, content: Any, *words: str, needs: tuple[Step, ...] = ()) -> Step:
            path = home() / kind / column / f"{name}.json"
            result = Step(
                kind=kind, module=f"eval.{kind}", arguments=(*words, "--output", str(path)), needs=needs,
                name=f"{kind}/{column}/{name}", output=path, data=data,
            )  # fmt: skip
            if content is None:
                return result
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content), encoding="utf-8")
            write_end(result, 5.0, alone=seed != 2)
            return result

        scores = {
            name: {f"q{i}": value for i, value in enumerate(per_query)} for name, per_query in (values or {}).items()
        }
        means = {name: round(sum(per_query.values()) / len(per_query), 4) for name, per_query in scores.items()}
        encoded = step("encode", {"some": "vectors"}, "--collection", str(data / "toy"))
        run = {"name": name, "scores": means, "per_query": scores}
        evaluated = step("evaluate", {"runs": [run]} if values else None, needs=(encoded,))
        content = {name: costs.get(name.split("/")[0]) for name in COSTS if name != "documents/s"}
        counted = step(
            "costs", {"costs": content, "documents": 120} if costs and not broken else None, needs=(encoded,)
        )
        if broken:
            write_end(counted, 1.0, alone=True, error=f"{home()}/costs: no room")
        made = Run(
            stem=name, run=data, made_by=encoded, checkpoint=f"checkpoint-{seed}",
            costs=counted if costs or broken else None,
        )  # fmt: skip
        return CellPlan(row=row, column=column, seed=seed, run=made, evaluated=evaluated)

    return make
