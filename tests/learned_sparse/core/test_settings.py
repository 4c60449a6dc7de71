"""Settings from YAML and from ``--set KEY=VALUE``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse, parse_changes


@dataclass(frozen=True)
class Inner:
    rate: float = 0.1


@dataclass(frozen=True)
class Settings:
    name: str
    kind: Literal["max", "sum"] = "max"
    count: int | None = None
    layers: tuple[int, ...] = ()
    inner: Inner = Inner()
    paths: dict[str, Path] = field(default_factory=dict)
    pair: tuple[int, str] = (0, "")
    version: Literal[1, 2] = 1


def test_values_are_converted_to_the_types_of_the_fields() -> None:
    values = {"name": "x", "count": None, "layers": [2, 12], "inner": {"rate": 1}, "paths": {"a": "b/c"}}
    expected = Settings("x", layers=(2, 12), inner=Inner(1.0), paths={"a": Path("b/c")}, pair=(1, "a"), version=2)
    assert parse(Settings, {**values, "pair": [1, "a"], "version": 2}, "file") == expected
    assert parse(Inner, parse_changes(["rate=1e-3"]), "file") == Inner(0.001)  # text in YAML 1.1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "file: 'name' is missing"),
        ({"nam": "x"}, "file: unknown key 'nam'; did you mean 'name'?"),
        ({"name": 3}, "file: name: expected text, got 3"),
        ({"name": "x", "kind": "mean"}, "file: kind: 'mean' is not one of 'max', 'sum'"),
        ({"name": "x", "count": True}, "file: count: expected int, got True"),
        ({"name": "x", "layers": [1, "2"]}, r"file: layers[1]: expected int, got '2'"),
        ({"name": "x", "inner": {"rate": "fast"}}, "file: inner: rate: expected a finite number, got 'fast'"),
        ({"name": "x", "pair": [1, 2]}, "file: pair[1]: expected text, got 2"),
        ({"name": "x", "version": True}, "file: version: True is not one of 1, 2"),
    ],
)
def test_errors_name_the_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(LearnedSparseError) as error:
        parse(Settings, values, "file")
    assert str(error.value) == message


@pytest.mark.parametrize("words", [["alpha"], ["=1"], ["alpha="], ["a=1", "a=1"], ["a=[1"]])
def test_invalid_changes(words: list[str]) -> None:
    with pytest.raises(LearnedSparseError, match="--set " + words[-1].replace("[", r"\[")):
        parse_changes(words)
