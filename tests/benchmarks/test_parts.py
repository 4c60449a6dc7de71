"""Passages, operation counts and profiles of the benchmarks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from tests.benchmarks import harness
from tests.benchmarks.passages import cut, described, passages
from tests.benchmarks.quality_work import Parts


def test_passages_are_prose_and_repeatable() -> None:
    texts = passages(30, seed=3, files=40)
    assert texts == passages(30, seed=3, files=40)
    assert texts != passages(30, seed=4, files=40)
    assert len(set(texts)) == 30
    assert all(26 <= len(text.split()) <= 150 for text in texts)
    assert len(passages(5_000, files=10)) == 5_000


def test_passages_are_whole_sentences() -> None:
    text = "One two three. Four five six! Seven?\n\nEight nine."
    assert list(cut(text, full=4)) == ["One two three. Four five six!"]
    assert list(cut(text, full=2)) == ["One two three.", "Four five six!", "Seven? Eight nine."]
    assert list(cut("a " * 100, full=10)) == [" ".join("a" * 20)]


def test_padding_is_counted_in_batches() -> None:
    statistics = described(["a b", "a", "a b c d"], [4, 2, 6], batch=2)
    assert (statistics["words"], statistics["tokens"], statistics["longest"]) == (2.3, 4.0, 6)
    assert statistics["padding"] == round((4 + 4 + 6) / 12, 2)


def test_measurements_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine goes on with the file alone."""
    path = tmp_path / "parts.json"
    for processor in ("first", "second"):
        monkeypatch.setattr(harness, "environment", lambda processor=processor: {"cpu": processor})
        parts = Parts(path, {"minutes": 6})
        assert parts.once("shared", partial(str, processor)) == "first"
        assert parts.once(f"of {processor}", lambda: {"a test": {"q": 0.5}}) == {"a test": {"q": 0.5}}
    assert Parts(path, {"minutes": 6}).machines == ["first", "second"]
    with pytest.raises(LearnedSparseError, match=r"parts.json: has \{'minutes': 6\}, this call \{'minutes': 7\}; use"):
        Parts(path, {"minutes": 7})


def test_a_failed_measurement_is_made_again(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "parts.json", {})
    with pytest.raises(ZeroDivisionError):
        parts.once("ratio", lambda: 1 / 0)
    assert parts.once("ratio", lambda: 2.0) == 2.0
