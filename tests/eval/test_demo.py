"""The demo at toy size: every step runs exactly once."""

from __future__ import annotations

import dataclasses
import logging
import re
from pathlib import Path

import pytest

from encoders.training import recipe as recipe_file
from eval import demo
from eval.reproduce.matrix import load_matrix
from learned_sparse.collections import pydoc
from learned_sparse.core.files import checkpoint_folder, home, index_folder, run_file, vectors_folder
from tests.toy_data import save_library, save_recipes

MODELS = ("splade",)


@pytest.fixture
def _toy_size(tmp_path: Path, tiny_headless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps on a tiny BERT for each recipe, a part of the library, and runs of 100 hits, which R@100 needs."""
    library = save_library(tmp_path / "library")
    monkeypatch.setattr(pydoc, "standard_library", lambda: library)
    matrix = dataclasses.replace(load_matrix("demo"), hits=100)  # its claims count the steps of whole recipes
    recipes = [f"demo-{name}" for name in demo.MODELS]
    monkeypatch.setattr(recipe_file, "RECIPES", save_recipes(tmp_path / "recipes", recipes, tiny_headless, -1.0))
    monkeypatch.setattr(demo, "load_matrix", lambda _: matrix)


@pytest.mark.jvm
@pytest.mark.usefixtures("_toy_size")
def test_the_demo_runs_every_step_once(
    tmp_home: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, "eval.reproduce")
    assert demo.main(["--models", *MODELS, "--commands"]) == 0
    output = capsys.readouterr().out
    for command in (
        f"learned_sparse.index --bm25 --collection pydoc --index {index_folder('pydoc', 'bm25')}\n",
        "learned_sparse.search --bm25 --index",
        "encoders.train --recipe demo-splade",
        "learned_sparse.encode --collection pydoc --model splade",
        "learned_sparse.encode --collection pydoc --queries --split test --model splade\n",
        "learned_sparse.index --collection pydoc --model splade\n",
        "learned_sparse.search --model splade --collection pydoc --split test",
        "eval.evaluate --collection pydoc --split test --run",
        "eval.costs --index",
    ):
        assert f"$ python -m {command}" in output
    assert any(message.startswith("[ 1/16] index the text of pydoc: ") for message in caplog.messages)
    table = rows(output)
    assert 0.3 < float(table["bm25"][0]) < 0.5  # a part of Python 3.11.7: 0.4331
    assert 0.7 < float(table["bm25"][1]) < 0.95
    for name in MODELS:
        assert len(table[name]) == 7
        assert 0 <= float(table[name][0]) < float(table["bm25"][0])  # a random BERT
    assert re.search(r"^  splade - bm25: MRR@10 -0\.\d+ \(-0\.\d+ to -0\.\d+\), p \S+", output, re.MULTILINE)
    first_table, _, _ = output.partition("nothing was trained")
    assert all(f"\n{name} " in first_table for name in ("bm25", "splade-tiny", "hybrid"))
    assert "\nsplade " not in first_table
    assert output.endswith("  python -m learned_sparse.serve\n")
    for path in (checkpoint_folder("splade"), vectors_folder("pydoc", "splade"), index_folder("pydoc", "splade")):
        assert path.is_dir()
    assert run_file("pydoc", "test", "splade").is_file()

    (home() / "runs" / "pydoc" / "test" / "bm25.txt").unlink()
    assert demo.main(["--models", "splade"]) == 0
    output = capsys.readouterr().out
    assert "$ python" not in output
    for name in ("bm25", "splade"):  # but for the last cell, a time that is measured again
        assert rows(output)[name][:-1] == table[name][:-1]


def rows(output: str) -> dict[str, list[str]]:
    """The cells of the table by model."""
    starts = tuple(f"{name} " for name in ("bm25", *MODELS))
    return {line.split()[0]: line.split()[1:] for line in output.splitlines() if line.startswith(starts)}
