"""Passages, operation counts and profiles of the benchmarks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from learned_sparse.core import LearnedSparseError
from tests.benchmarks import harness
from tests.benchmarks.forward_profile import part_of, shares
from tests.benchmarks.passages import cut, described, passages
from tests.benchmarks.quality_work import Parts
from tests.benchmarks.roofline import operations_of

HEAD, ENCODER = "head, matrix product", "encoder, matrix products"


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


def test_operations_of_a_small_model_by_hand() -> None:
    config = SimpleNamespace(hidden_size=2, num_hidden_layers=3, intermediate_size=5, vocab_size=7)
    layer = 4 * (2 * 2) + 2 * (2 * 5)  # Q, K, V and output; both feed-forward products: multiplications a token
    attention = 2 * (4 * 4 * 2)  # attention of 4 tokens to 4 tokens in 2 dimensions: scores, then weighted sums
    head = 2 * 2 + 2 * 7
    assert operations_of(config, [4]) == 2 * (3 * (4 * layer + attention) + 4 * head)
    assert operations_of(config, [4, 4]) == 2 * operations_of(config, [4])


@pytest.mark.parametrize(
    ("operator", "shapes", "part"),
    [
        ("aten::mm", [[9, 384], [384, 2048], [9, 2048]], HEAD),
        ("aten::mm", [[9, 384], [384, 1536], [9, 1536]], ENCODER),
        ("aten::addmm_", [[9, 384], [9, 1536], [1536, 384], [], []], ENCODER),
        ("aten::addmm", [[384], [9, 384], [384, 384], [], []], ENCODER),
        ("aten::baddbmm", [[12, 9, 9], [12, 9, 32], [12, 32, 9]], "attention"),
        ("aten::native_layer_norm", [[9, 384]], "layer norm"),
        ("aten::gelu_", [[9, 1536]], "GELU"),
        ("aten::amax", [[9, 2048]], "pooling"),
        ("aten::nonzero", [[2, 30522]], "extraction"),
        ("aten::copy_", [[9, 384]], "copies, sums and other operators"),
    ],
)
def test_the_part_of_each_operator(operator: str, shapes: list[list[int]], part: str) -> None:
    assert part_of(operator, shapes, {384, 1152, 1536}) == part


def test_shares_add_up() -> None:
    assert shares({"a": 1.0, "b": 3.0}) == {"b": 0.75, "a": 0.25}


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
