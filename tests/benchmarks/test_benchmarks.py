"""Every benchmark runs at toy size; no test depends on a time."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.training.recipe import load_recipe
from tests.benchmarks import encoding, engines, quality, run
from tests.benchmarks.shapes import MAX_LENGTH

WITH_JAVA = {"encoding", "indexing", "searching"}
CASES = [pytest.param(name, marks=[pytest.mark.jvm] if name in WITH_JAVA else []) for name in run.BENCHMARKS]


def encode(name: str, model: Path, rounds: int, pairs: list[tuple[Path, Path]]) -> dict[str, Any]:
    """In place of ``encoding.encode``: without the start of a process."""
    return engines.measure(
        name, str(model), str(MAX_LENGTH), str(rounds), *(str(path) for pair in pairs for path in pair)
    )


@pytest.mark.parametrize("name", CASES)
def test_benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "encode", encode)
    monkeypatch.setattr(run, "ProcessPoolExecutor", lambda *_: ThreadPoolExecutor(1))
    result = run.measured(name, toy=True)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["sizes"]
    assert len(result["rows"]) > 1


@pytest.mark.parametrize("name", quality.CONTENDERS)
def test_recipes_of_the_comparison_of_quality(name: str, tmp_path: Path) -> None:
    data = [{"collection": "c", "split": "train", "run": "r"}]
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(quality.recipe(name, data, 1e-4, 10, 0)), encoding="utf-8")
    assert load_recipe(tmp_path / "recipe.yaml").stages[0].steps == 10
