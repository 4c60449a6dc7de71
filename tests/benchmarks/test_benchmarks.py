"""Every benchmark runs at toy size; no test depends on a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.files import read_json
from tests.benchmarks import harness, run
from tests.reliability.commands import Run, Server

NO_JAVA = {"head", "memory", "training", "mining"}
"""Benchmarks that start no JVM in this process."""
WITHOUT_ROUNDS = {"memory", "mining"}
"""Benchmarks that measure each size once."""
CASES = [pytest.param(name, marks=[] if name in NO_JAVA else [pytest.mark.jvm]) for name in run.BENCHMARKS]


@pytest.fixture
def _forked_children(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let measured processes be forks of one that has the imports; ``test_harness.py`` starts fresh ones."""

    def child(target: str, **arguments: Any) -> dict[str, Any]:
        result = tmp_path / "result.json"
        words = (target, json.dumps(arguments), str(result))
        (done,) = server.run(Run(module="tests.benchmarks.harness", arguments=words, folder=harness.ROOT))
        assert done.status == 0, done.output
        measured: dict[str, Any] = read_json(result)
        return measured

    monkeypatch.setattr(harness, "child", child)


@pytest.mark.usefixtures("_forked_children")
@pytest.mark.parametrize("name", CASES)
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
