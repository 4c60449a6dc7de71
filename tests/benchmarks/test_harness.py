"""The harness measures contenders in turn, in fresh processes, and records the machine."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.benchmarks import harness, run


def test_contenders_take_turns() -> None:
    order: list[str] = []
    contenders = {name: lambda name=name: order.append(name) for name in "abc"}
    seconds = harness.interleave(contenders, rounds=3, warm=1)
    assert "".join(order[3:]) == "abcbcacab"
    assert sorted(order[:3]) == ["a", "b", "c"]
    assert {name: len(elapsed) for name, elapsed in seconds.items()} == {"a": 3, "b": 3, "c": 3}
    assert all(elapsed >= 0 for rounds in seconds.values() for elapsed in rounds)


def test_ratio_of_medians() -> None:
    assert harness.median_ratio([8.0, 1.0, 6.0], [3.0, 3.0, 100.0]) == 2.0


def process(**arguments: Any) -> dict[str, Any]:
    """Runs in the child process of a test below."""
    print("not part of the answer")
    return {"arguments": arguments, "process": os.getpid()}


def fail() -> dict[str, Any]:
    raise KeyError("the reason")


def test_a_child_is_a_new_process() -> None:
    result = harness.child("tests.benchmarks.test_harness:process", number=3, text="ä")
    assert result["arguments"] == {"number": 3, "text": "ä"}
    assert result["process"] != os.getpid()
    assert 5 < result["peak_mb"] < 2000


def test_the_error_of_a_failed_child_has_its_output() -> None:
    with pytest.raises(RuntimeError, match="the reason"):
        harness.child("tests.benchmarks.test_harness:fail")


def allocate(megabytes: int) -> dict[str, Any]:
    """Fill and free this number of megabytes."""
    block = bytearray(b"x") * (megabytes * 10**6)
    return {"filled": len(block)}


def test_peak_memory_includes_freed_memory() -> None:
    small, large = (harness.child("tests.benchmarks.test_harness:allocate", megabytes=size) for size in (1, 101))
    assert 90 < large["peak_mb"] - small["peak_mb"] < 130


def test_missing_distributions_are_omitted() -> None:
    assert list(harness.installed("numpy", "no-such-distribution")) == ["numpy"]


def test_the_machine_is_described() -> None:
    machine = harness.environment()
    assert json.loads(json.dumps(machine)) == machine
    assert machine["cpu"]
    assert machine["cores"] >= 1
    assert len(machine["load_before"]) == 3


def test_an_unknown_benchmark_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run.main(["speed"])
    assert "'speed' is none of encoding" in capsys.readouterr().err
