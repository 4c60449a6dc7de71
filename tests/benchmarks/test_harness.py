"""The harness measures contenders in turn, in fresh processes; passages are prose."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.benchmarks import harness
from tests.benchmarks.agreement import agreement, require_same, spread
from tests.benchmarks.passages import cut, described, passages


def test_contenders_take_turns() -> None:
    order: list[str] = []
    contenders = {name: lambda name=name: order.append(name) for name in "abc"}
    seconds = harness.interleave(contenders, rounds=3, warm=1)
    assert "".join(order[3:]) == "abcbcacab"
    assert sorted(order[:3]) == ["a", "b", "c"]
    assert {name: len(elapsed) for name, elapsed in seconds.items()} == {"a": 3, "b": 3, "c": 3}
    assert harness.median_ratio([8.0, 1.0, 6.0], [3.0, 3.0, 100.0]) == 2.0


def allocate(megabytes: int) -> dict[str, Any]:
    """Fill and free this number of megabytes; runs in the child process of a test below."""
    print("not part of the answer")
    block = bytearray(b"x") * (megabytes * 10**6)
    return {"filled": len(block), "process": os.getpid()}


def test_a_child_is_a_new_process_and_its_peak_memory_includes_freed_memory() -> None:
    small, large = (harness.child("tests.benchmarks.test_harness:allocate", megabytes=size) for size in (1, 101))
    assert len({small["process"], large["process"], os.getpid()}) == 3
    assert 90 < large["peak_mb"] - small["peak_mb"] < 130
    with pytest.raises(RuntimeError, match=r"MemoryError|OverflowError"):
        harness.child("tests.benchmarks.test_harness:allocate", megabytes=10**12)


def test_the_machine_is_described() -> None:
    machine = harness.environment()
    assert json.loads(json.dumps(machine)) == machine
    assert machine["cpu"]
    assert list(harness.installed("numpy", "no-such-distribution")) == ["numpy"]


def test_passages_are_whole_sentences_and_repeatable() -> None:
    texts = passages(30, seed=3, files=40)
    assert texts == passages(30, seed=3, files=40) != passages(30, seed=4, files=40)
    assert len(set(texts)) == 30
    assert all(26 <= len(text.split()) <= 150 for text in texts)
    text = "One two three. Four five six! Seven?\n\nEight nine."
    assert list(cut(text, full=2)) == ["One two three.", "Four five six!", "Seven? Eight nine."]
    assert list(cut("a " * 100, full=10)) == [" ".join("a" * 20)]
    statistics = described(["a b", "a", "a b c d"], [4, 2, 6], batch=2)
    assert (statistics["words"], statistics["longest"], statistics["padding"]) == (2.3, 6, round(14 / 12, 2))


def test_agreement_of_vectors() -> None:
    ours = {"a": {"x": 3, "y": 4}, "b": {}}
    assert agreement(ours, ours)["cosine_least"] == 1.0
    facts = agreement(ours, {"a": {"x": 3, "z": 4}, "b": {}})
    assert (facts["cosine_least"], facts["largest_difference"]) == (0.36, 4)
    assert (facts["equal_impacts"], facts["within_one"]) == (0.33333, 0.33333)
    with pytest.raises(RuntimeError, match="gives other vectors"):
        require_same("peer", facts)
    with pytest.raises(RuntimeError, match="nothing to compare"):
        agreement(ours, {"a": {"x": 3}})
    assert spread({"a": {"x": 1}, "b": {"y": 1}}) == 0.0
