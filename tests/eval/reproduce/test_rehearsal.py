"""Rehearsals: every matrix of the package runs for real at toy size; cut recipes keep what they compute."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.training.recipe import load_recipe, to_mapping
from eval.reproduce import __main__ as reproduce
from eval.reproduce.matrix import known_matrices
from eval.reproduce.rehearsal import DOCUMENTS, LIMITS, MadeUp, cut
from eval.reproduce.steps import Step, log_of
from learned_sparse.collections.collection import load_collection
from learned_sparse.core.files import write_json
from tests.reliability.scale import FULL

CELLS: dict[str, tuple[list[str], list[str]]] = {
    "beir": (["arguana"], ["docT5query"]),
    "hybrid": (["scifact"], ["fine-tuned", "hybrid, half of the model's postings", "reciprocal rank fusion"]),
    "msmarco-doc": (["dev"], ["BM25 MaxP", "uniCOIL with docT5query, published segments"]),
    "msmarco-passage": (["dev"], ["BM25, tuned, MiniLM on its top 10"]),
}
"""A column and rows of matrices that have every kind of step; ``make test-rehearsals`` has all."""


@pytest.mark.jvm
@pytest.mark.slow
@pytest.mark.parametrize("name", known_matrices() if FULL else CELLS)
def test_every_row_of_every_matrix_runs(name: str, tmp_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trains, encodes, indexes and searches many models. test_demo.py runs the matrix `demo`."""
    columns, rows = ([], []) if FULL else CELLS[name]
    chosen = ["--column", *columns, "--row", *rows] if rows else []
    status = reproduce.main(["--matrix", name, "--rehearse", *chosen])
    output = capsys.readouterr().out
    assert status == 0, output
    folder = tmp_home / "rehearsals" / name / "results"
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    cells = [
        cell
        for cell in results["cells"]
        if cell["column"] in (columns or [cell["column"]]) and cell["row"] in (rows or [cell["row"]])
    ]
    assert {cell["status"] for cell in cells} <= {"done", "published", "left out"}
    counts = re.search(r"^(\d+) of (\d+) cells run, 0 of \d+ steps failed", output, re.MULTILINE)
    assert counts, output
    run = {column["name"] for column in results["columns"] if not column["average"]}
    assert int(counts[1]) == int(counts[2]) >= sum(c["status"] == "done" and c["column"] in run for c in cells) > 0
    assert (folder / "README.md").is_file()


def test_made_up_collections_have_the_splits_and_measures_of_the_real_ones(tmp_path: Path) -> None:
    made_up = MadeUp(tmp_path, frozenset({"train", "dev"}))
    toy = load_collection(made_up.collection("arguana"))
    assert toy.name == "arguana"
    assert toy.splits.keys() == {"train", "dev", "test"}
    assert toy.split("test").remove_query
    assert toy.split("test").measures == ("nDCG@10", "R@100", "R@1000")
    documents = list(toy.documents())
    assert len(documents) == DOCUMENTS
    assert max(len(document.text.split()) for document in documents) > 512
    queries = {split: {query.id for query in toy.queries(split)} for split in toy.splits}
    assert len(set().union(*queries.values())) == sum(map(len, queries.values()))  # no query in two splits
    assert load_collection(made_up.collection("somewhere/else")).name == "else"


@pytest.mark.parametrize("name", ["spade", "uhd-bert-buckets", "sparterm-expansion", "demo-splade", "splade-flops"])
def test_a_cut_recipe_keeps_what_it_computes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MadeUp, "backbone", lambda self, kind, layers: f"{kind} of {layers}")
    whole = to_mapping(load_recipe(name))
    small = cut(to_mapping(load_recipe(name)), MadeUp(tmp_path, frozenset({"train", "dev"})))
    assert [stage["name"] for stage in small["stages"]] == [stage["name"] for stage in whole["stages"]]
    assert all(stage[key] <= LIMITS[key] for key in ("steps", "batch_size") for stage in small["stages"])
    for key in ("architecture", "max_length", "precision"):
        assert small[key] == whole[key]
    for before, after in zip(whole["stages"], small["stages"], strict=True):
        for key in ("objective", "component", "optimizer", "settings"):
            assert after[key] == before[key]
        assert {**after["rank"], "negatives_from": before["rank"]["negatives_from"]} == before["rank"]
        assert {key for key in before if before[key] is None} == {key for key in after if after[key] is None}
    layers = whole["settings"].get("layers") or [2]
    assert small["backbone"].endswith(f" of {max(2, *layers)}")
    (tmp_path / "cut.yaml").write_text(yaml.safe_dump(small), encoding="utf-8")
    load_recipe(tmp_path / "cut.yaml")


def test_a_failing_row_is_reported_and_the_others_run(
    tmp_home: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(step: Step) -> int:
        if "sparterm" in step.title:
            log_of(step).write_text("no such layer", encoding="utf-8")
            return 1
        content: dict[str, Any] = {"runs": [{"scores": {"MRR@10": 0.5}, "per_query": {"MRR@10": {"q": 0.5}}}]}
        write_json(step.output, content | {"costs": {}, "documents": 1})
        return 0

    monkeypatch.setattr("eval.reproduce.runner.in_this_process", run)
    caplog.set_level(logging.INFO, "eval.reproduce")
    assert reproduce.main(["--matrix", "demo", "--rehearse", "--row", "BM25", "sparterm"]) == 1
    assert "1 of 2 cells run, " in capsys.readouterr().out
    assert any("train checkpoints/sparterm: FAILED" in text and "no such layer" in text for text in caplog.messages)
