"""The experiment on small real collections, on very small made-up ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from encoders.training import recipe, recipe_file
from eval import small_real

_TEXT = "python file opens path garbage collector memory skin rash hives weather rain wing lift drag heat flow"
WORDS = _TEXT.split()


@pytest.fixture
def tiny_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two of the collections, twelve documents each; every document's first two words are its query."""
    monkeypatch.setattr(small_real, "TESTS", small_real.TESTS[:3])
    splits: dict[str, list[str]] = {}
    for name, split in [*small_real.TESTS, *((name, "train") for name in small_real.TRAINING)]:
        splits.setdefault(name, []).append(split)
    for name, of_collection in splits.items():
        folder = tmp_path / "data" / name
        (folder / "qrels").mkdir(parents=True)
        texts = [" ".join(WORDS[i : i + 5]) for i in range(12)]
        corpus = [{"_id": f"d{i}", "title": "", "text": text} for i, text in enumerate(texts)]
        queries = [{"_id": f"q{i}", "text": " ".join(text.split()[:2])} for i, text in enumerate(texts)]
        for file, rows in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
            (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        for split in of_collection:
            pairs = "".join(f"q{i}\td{i}\t1\n" for i in range(12))
            (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{pairs}", encoding="utf-8")
    return tmp_path / "data"


@pytest.fixture
def tiny_recipes(tmp_path: Path, tiny_headless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped recipes, two steps a stage on a tiny BERT."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    for model in small_real.MODELS:
        values = yaml.safe_load((recipe.RECIPES / f"{model}.yaml").read_text(encoding="utf-8"))
        values |= {"backbone": str(tiny_headless), "num_hidden_layers": None, "output_bias": -0.5}
        values["max_length"] = {"query": 16, "document": 16}
        for stage in values["stages"]:
            stage |= {"steps": 2, "batch_size": 4}
        (folder / f"{model}.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
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
