"""Every benchmark runs at toy size; no test depends on a time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.benchmarks import run

NO_JAVA = {"roofline", "variants", "memory", "growth", "training", "mining"}
"""Benchmarks that start no JVM in this process."""

WITHOUT_ROUNDS = {"memory", "growth", "mining"}
"""Benchmarks that measure each size once, without rounds."""


def cases() -> list[Any]:
    """Each benchmark whose module exists; those that need Java are marked."""
    return [pytest.param(name, marks=[] if name in NO_JAVA else [pytest.mark.jvm]) for name in run.available()]


@pytest.mark.parametrize("name", cases())
def test_benchmark(name: str) -> None:
    result = run.load(name).run(True)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["sizes"]
    assert result["rows"]
    assert all(isinstance(row, dict) for row in result["rows"])
    assert numbers(result["ratios"])
    assert all(ratio >= 0 for ratio in numbers(result["ratios"]))
    if name not in WITHOUT_ROUNDS:
        assert any(isinstance(value, list) and value for row in result["rows"] for value in row.values()), (
            "no raw values"
        )
    text = run.load(name).markdown(result)
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    assert tables
    for table in tables:
        assert len({line.replace("\\|", "").count("|") for line in table}) == 1, "a row with another number of cells"


def numbers(value: Any) -> list[float]:
    """All numbers in a JSON value."""
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []
