"""The demo at toy size: every step runs once, and none twice."""

from __future__ import annotations

import dataclasses
import logging
import shutil
from pathlib import Path

import pytest

from encoders.training import recipe_file
from eval import demo
from eval.reproduce import matrix_file
from eval.reproduce.matrix_file import load_matrix
from learned_sparse.core import checkpoint_folder, index_folder, run_file, vectors_folder
from learned_sparse.core.errors import LearnedSparseError
from tests.toy_data import save_recipes

RECIPES = [f"demo-{name}" for name in (*demo.MODELS, *demo.OTHER_MODELS)]


@pytest.fixture
def tiny_recipe(tmp_path: Path, tiny_headless: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """demo-splade; all recipes of the demo are replaced by two steps on a tiny BERT."""
    folder = save_recipes(tmp_path / "recipes", RECIPES, tiny_headless, -1.0)
    monkeypatch.setattr(recipe_file, "RECIPES", folder)
    return folder / "demo-splade.yaml"


@pytest.fixture(autouse=True)
def _few_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What R@100 needs."""
    monkeypatch.setattr(matrix_file, "load_matrix", lambda name: dataclasses.replace(load_matrix(name), hits=100))


@pytest.mark.jvm
def test_the_demo_runs_every_step_once(
    tmp_home: Path,
    tiny_recipe: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, "eval.reproduce")
    assert demo.main(["--models", "splade"]) == 0
    shown = capsys.readouterr().out
    progress = caplog.messages
    for command in (
        "learned_sparse.index --bm25 --collection pydoc\n",
        "learned_sparse.search --bm25 --collection pydoc --split test",
        "encoders.train --recipe demo-splade",
        "learned_sparse.encode --model splade --collection pydoc\n",
        "learned_sparse.encode --model splade --collection pydoc --queries --split test\n",
        "learned_sparse.index --model splade --collection pydoc\n",
        "learned_sparse.search --model splade --collection pydoc --split test",
        "eval.evaluate --collection pydoc --split test --run",
        "eval.costs --index",
    ):
        assert f"$ python -m {command}" in shown
    assert any(line.startswith("[ 1/11] index the text of pydoc: ") for line in progress)
    table = {line.split()[0]: line.split()[1:] for line in shown.splitlines() if line.startswith(("bm25 ", "splade "))}
    assert 0.3 < float(table["bm25"][0]) < 0.5  # this Python's docstrings; 0.3565 with Python 3.11.7
    assert 0.7 < float(table["bm25"][1]) < 0.95
    assert len(table["splade"]) == 7
    assert "MRR@10: above BM25: none." in shown  # a random BERT is not
    for path in (checkpoint_folder("splade"), vectors_folder("pydoc", "splade"), index_folder("pydoc", "splade")):
        assert path.is_dir()
    assert run_file("pydoc", "test", "splade").is_file()

    monkeypatch.setattr(demo, "encode_milliseconds", lambda *_: 1.0)  # measured once is enough
    assert demo.main(["--models", "splade"]) == 0
    again = capsys.readouterr().out
    assert "$ python" not in again
    rows = [line for line in again.splitlines() if line.startswith(("bm25 ", "splade "))]
    assert [row.split()[:6] for row in rows] == [[name, *cells[:5]] for name, cells in table.items()]

    shutil.rmtree(tmp_home / "reproduce")  # as an earlier version left it
    written = {path: path.stat().st_mtime_ns for path in (vectors_folder("pydoc", "splade") / "vectors").iterdir()}
    assert demo.main(["--models", "splade"]) == 0
    assert "the index of these vectors is there already" in capsys.readouterr().out
    assert written == {path: path.stat().st_mtime_ns for path in written}


def test_models_are_chosen_by_name_or_all() -> None:
    assert demo.chosen_models(["all"]) == (*demo.MODELS, *demo.OTHER_MODELS)
    assert demo.chosen_models(demo.MODELS) == demo.MODELS
    assert not set(demo.MODELS) & set(demo.OTHER_MODELS)
    with pytest.raises(LearnedSparseError, match="did you mean 'spade'"):
        demo.chosen_models(["spad"])


@pytest.mark.jvm
def test_spade_and_uhd_bert_in_the_demo(
    tmp_home: Path,
    tmp_path: Path,
    tiny_headless: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = save_recipes(tmp_path / "recipes", RECIPES, tiny_headless)
    monkeypatch.setattr(recipe_file, "RECIPES", folder)
    monkeypatch.setattr(demo, "encode_milliseconds", lambda *_: 1.0)  # measured in the test above
    assert demo.main(["--models", *demo.OTHER_MODELS]) == 0
    table = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines() if line}
    for name in demo.OTHER_MODELS:
        assert len(table[name]) == 7
        assert 0 <= float(table[name][0]) < float(table["bm25"][0])  # a random BERT
