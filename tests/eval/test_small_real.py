"""The experiment on small real collections, on very small made-up ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from encoders.training import recipe_file
from eval import small_real
from tests.toy_data import save_collection, save_recipes


@pytest.fixture
def tiny_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two of the collections, twelve documents each; every document's first two words are its query."""
    monkeypatch.setattr(small_real, "TESTS", small_real.TESTS[:3])
    splits: dict[str, list[str]] = {}
    for name, split in [*small_real.TESTS, *((name, "train") for name in small_real.TRAINING)]:
        splits.setdefault(name, []).append(split)
    for name, of_collection in splits.items():
        save_collection(tmp_path / "data" / name, of_collection)
    return tmp_path / "data"


@pytest.fixture
def tiny_recipes(tmp_path: Path, tiny_headless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped recipes, two steps a stage on a tiny BERT."""
    folder = save_recipes(tmp_path / "recipes", small_real.MODELS, tiny_headless, -0.5)
    monkeypatch.setattr(recipe_file, "RECIPES", folder)


@pytest.mark.jvm
def test_every_model_is_measured_on_every_split(
    tmp_home: Path, tmp_path: Path, tiny_data: Path, tiny_recipes: None
) -> None:
    assert small_real.main(["--data", str(tiny_data), "--output", str(tmp_path / "results")]) == 0
    found = json.loads((tmp_path / "results" / "small-real.json").read_text(encoding="utf-8"))
    rows = {(row["collection"], row["split"], row["model"]): row for row in found["results"]}
    assert len(rows) == len(small_real.TESTS) * (1 + len(small_real.MODELS))
    for (_, _, model), row in rows.items():
        assert set(row["scores"]) == set(small_real.MEASURES)
        if model == "bm25":
            assert row["scores"]["R@100"] == 1.0  # it finds both words of a query in the document they are from
        else:
            assert row["terms/document"] > 0
    assert {model: len(budget["stages"]) for model, budget in found["training"].items()} == {
        "small-sparterm-literal": 1,
        "small-sparterm": 2,
        "small-splade": 1,
    }
    page = (tmp_path / "results" / "small-real.md").read_text(encoding="utf-8")
    assert "gate: 2 steps of 4 queries, then importance: 2 steps of 4 queries" in page
    assert page.count("| bm25 ") == len(small_real.TESTS)
    picture = (tmp_path / "results" / "small-real.svg").read_text(encoding="utf-8")
    assert picture.count("<rect") == 1 + 4 + 4 * len(small_real.TESTS)  # background, legend, bars


def test_missing_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"msmarco-mini/corpus\.jsonl: no such file"):
        small_real.main(["--data", str(tmp_path)])
