"""Every benchmark runs at toy size; no test depends on a time."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.training.recipe import load_recipe
from tests.benchmarks import encoding, engines, head, indexing, memory, quality, run, startup, training

NO_JAVA = {"head", "memory", "training"}
"""Benchmarks that start no JVM in this process."""
CASES = [pytest.param(name, marks=[] if name in NO_JAVA else [pytest.mark.jvm]) for name in run.BENCHMARKS]


def in_this_process(target: str, **arguments: Any) -> dict[str, Any]:
    """In place of ``run.child``: without the start of a process."""
    module, _, function = target.partition(":")
    return {**getattr(importlib.import_module(module), function)(**arguments), "peak_mb": 1.0}


def encode(name: str, model: Path, length: int, rounds: int, pairs: list[tuple[Path, Path]]) -> dict[str, Any]:
    """In place of ``encoding.encode``."""
    return engines.measure(name, str(model), str(length), str(rounds), *(str(path) for pair in pairs for path in pair))


@pytest.mark.parametrize("name", CASES)
def test_benchmark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding, "encode", encode)
    for module in (head, indexing, memory, startup, training):
        monkeypatch.setattr(module, "child", in_this_process)
    result = run.measured(name, toy=True)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["sizes"]
    assert numbers(result["ratios"])
    assert all(ratio >= 0 for ratio in numbers(result["ratios"]))
    assert run.table(result).count("\n| ") == len(result["rows"]) + 1


@pytest.mark.parametrize("name", quality.CONTENDERS)
def test_recipes_of_the_comparison_of_quality(name: str, tmp_path: Path) -> None:
    data = [{"collection": "c", "split": "train", "run": "r"}]
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(quality.recipe(name, data, 1e-4, 10, 0)), encoding="utf-8")
    assert load_recipe(tmp_path / "recipe.yaml").stages[0].steps == 10


def numbers(value: Any) -> list[float]:
    """All numbers in a JSON value of dictionaries."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    return [float(value)]
