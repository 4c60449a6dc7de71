"""Rows with predicted queries of docT5query: the files that their training and encoding read."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml

from encoders.training import recipe_file
from eval.reproduce.__main__ import main
from eval.reproduce.matrix import Column, Matrix, OtherModelRow, RecipeRow, Training
from eval.reproduce.plan import make_plan
from learned_sparse.core.errors import LearnedSparseError
from tests.toy_data import save_collection, save_recipes


def test_the_dry_run_names_missing_files_and_the_cells_that_need_them(
    tmp_path: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_collection(tmp_path / "toy", ("train", "test"))
    file = str(tmp_path / "{collection}" / "predicted.jsonl")
    content = {
        "title": "Mine",
        "columns": {"toy": {"collection": str(tmp_path / "toy"), "split": "test", "measures": ["MRR@10"]}},
        "training": {"data": [f"{tmp_path}/toy:train"]},
        "rows": {
            "BM25": {"bm25": "expanded", "expanded": file},
            "SpaDE": {"recipe": "demo-spade", "expanded": file, "changes": ["validation=null"]},
        },
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    assert main(["--matrix", str(tmp_path / "mine.yaml"), "--dry-run"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("missing"))
    assert f"{tmp_path}/toy/predicted.jsonl: for BM25 on toy, SpaDE on toy; predicted queries by document id" in line
    assert "msmarco_v1_passage_doc2query-t5_expansions" in line
    assert main(["--matrix", str(tmp_path / "mine.yaml"), "--check-data"]) == 1
    assert capsys.readouterr().out.splitlines() == [line, "1 files are missing"]
    (tmp_path / "toy" / "predicted.jsonl").write_text('{"id": "d1", "predicted_queries": ["x"]}\n', encoding="utf-8")
    assert main(["--matrix", str(tmp_path / "mine.yaml"), "--dry-run"]) == 0
    assert "predicted queries by document id" not in capsys.readouterr().out
    assert main(["--matrix", str(tmp_path / "mine.yaml"), "--check-data"]) == 0


def test_rows_of_a_paper_and_of_a_curve(tmp_path: Path, tmp_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"toy": {"collection": str(save_collection(tmp_path / "toy", ("test",))), "split": "test"}}
    columns["toy"]["measures"] = ["MRR@10"]  # type: ignore[assignment]
    rows = {
        "BM25": {"bm25": "text"},
        "SPLADE": {"recipe": "demo-splade", "changes": ["validation=null"]},
        "SPLADE [SPLADE]": {"published": "SPLADE, Table 1", "scores": {"toy": {"MRR@10": 0.322}}},
        "weak": {"recipe": "demo-splade", "curve": "lambdas", "changes": ["validation=null", "seed=1"]},
    }
    claims = [{"source": "SparTerm, Table 2: in words", "better": "weak", "worse": "BM25", "quantity": "MRR@10"}]
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"title": "x", "columns": columns, "rows": rows, "claims": claims}, sort_keys=False))

    def chosen(*words: str) -> list[str]:
        assert main(["--matrix", str(file), "--display-commands", *words]) == 0
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("#")]

    assert chosen("--paper", "SPLADE") == chosen("--paper", "SPLADE, Table 1") == ["# SPLADE, toy"]
    assert chosen("--paper", "SparTerm, Table 2") == ["# BM25, toy", "# weak, toy"]
    assert chosen("--curve", "lambdas", "--row", "BM25") == ["# BM25, toy", "# weak, toy"]
    for words in (("--paper", "SPLAED"), ("--curve", "lambda")):
        with pytest.raises(LearnedSparseError, match="no row"):
            chosen(*words)


def test_predicted_queries_of_a_row_reach_training_and_encoding(
    tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe_file, "RECIPES", save_recipes(tmp_path / "recipes", ["small-spade"], tmp_path / "bert"))
    data = tmp_path / "data"
    for name in ("toy", "other"):
        save_collection(data / name, ("train", "dev", "test"))
    rows = {
        "expanded": RecipeRow(recipe="small-spade", expanded=str(data / "{collection}" / "predicted.jsonl")),
        "plain": RecipeRow(recipe="small-spade"),
        "k=2": OtherModelRow(model="expanded", encode={"k": 2}),
        "re-ranked": OtherModelRow(model="expanded", rerank="plain", depth=5),
        "queries": RecipeRow(
            recipe="small-spade", expanded=str(data / "{collection}" / "predicted.jsonl"), expansion="queries"
        ),
        "texts alone": OtherModelRow(model="expanded", expansion="none"),
    }
    other = Column(collection=str(data / "other"), split="test")
    columns = {"other": other, "pool": dataclasses.replace(other, pool=2)}
    training = Training(data=(f"{data}/toy:train",), negatives=5, validation=str(data / "toy"))
    plan = make_plan(Matrix(title="", columns=columns, rows=rows, training=training, plain_names=True), "m", data)
    steps = {step.name: step for step in plan.steps}
    predicted = data / "other" / "predicted.jsonl"
    for name in ("other", "other-test-pool-2"):  # a pool has new terms of its own documents
        terms = steps[f"expanded/{name}/new-terms"]
        assert terms.arguments[terms.arguments.index("--expanded") + 1] == str(predicted)
        assert predicted in terms.reads
        reranked = [step for step in plan.steps if step.module == "eval.rerank" and f"/{name}/" in str(step.writes[0])]
        for step in (steps[f"vectors/{name}/expanded"], steps[f"vectors/{name}/k-2"], *reranked):
            assert step.arguments[step.arguments.index("--expanded") + 1] == str(terms.writes[0])
            assert terms in step.needs
        assert len(reranked) == 1
    encoded = steps["vectors/other/queries"]
    assert encoded.arguments[encoded.arguments.index("--expanded") + 1] == str(predicted)
    assert predicted in encoded.reads
    trained, terms = steps["checkpoints/expanded"], steps["expanded/toy/new-terms"]
    assert f"data.0.expanded={terms.writes[0]}" in trained.arguments
    assert terms in trained.needs
    assert data / "toy" / "predicted.jsonl" in terms.reads
    assert data / "toy" / "predicted.jsonl" in steps["checkpoints/queries"].reads
    for name in ("checkpoints/plain", "vectors/other/plain", "vectors/other/texts-alone"):
        assert not any(
            "expanded" in word for word in steps[name].arguments if word != str(steps["checkpoints/expanded"].writes[0])
        )


def test_names_do_not_hold_the_data_folder(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TREC CAR's backbone is a folder below it."""
    monkeypatch.setattr(recipe_file, "RECIPES", save_recipes(tmp_path / "recipes", ["small-spade"], tmp_path / "bert"))
    data = save_collection(tmp_path / "data" / "toy", ("train", "dev", "test")).parent
    rows = {"car": RecipeRow(recipe="small-spade", changes=(f"backbone='{data}/large'", "validation=null"))}
    columns = {"toy": Column(collection=str(data / "toy"), split="test")}
    training = Training(data=(f"{data}/toy:train",), negatives=5)
    plan = make_plan(Matrix(title="", columns=columns, rows=rows, training=training), "m", data)
    (trained,) = (step for step in plan.steps if step.kind == "train")
    assert trained.name.startswith("checkpoints/small-spade-backbone-large-validation-null-")
