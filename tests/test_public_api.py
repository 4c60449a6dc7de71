"""The public names, and every example in a docstring, which gives the documented result."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from typing import Any

import pytest

import encoders
import eval as evaluation
import learned_sparse


def test_public_names() -> None:
    for package in (learned_sparse, encoders, evaluation):
        assert package.__doc__
        assert sorted(package.__all__) == list(package.__all__)
        for name in {*package.__all__} - {"LuceneImpactSearcher"}:  # which starts Java; test_jvm.py has it
            assert getattr(package, name) is not None
        assert set(package.__all__) <= set(dir(package))
    assert "learned_sparse.core.errors" in MODULES
    assert {"evaluate", "compare"} <= set(evaluation.__all__)
    assert {"ARCHITECTURES", "load", "train"} <= set(encoders.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'Documents'"):
        _ = learned_sparse.Documents  # type: ignore[attr-defined]


def test_functions_named_like_commands_stay_functions(python: Any) -> None:
    program = (
        "import sys, encoders, eval; print('torch' in sys.modules); import encoders.train, eval.evaluate; "
        "from encoders import train; from eval import evaluate; print(callable(train), callable(evaluate))"
    )
    assert python("-c", program).stdout == "False\nTrue True\n"


ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for package in ("learned_sparse", "encoders", "eval") for path in (ROOT / package).rglob("*.py"))
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in SOURCES if ">>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert tried > 0
    assert failed == 0
