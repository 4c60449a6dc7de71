"""Every example in a docstring gives the documented result."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for package in ("learned_sparse", "encoders", "eval") for path in (ROOT / package).rglob("*.py"))
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in SOURCES if ">>> " in path.read_text("utf-8")
]


def test_examples_were_found() -> None:
    assert {"learned_sparse.core.errors", "learned_sparse.search.maxp"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert tried > 0
    assert failed == 0
