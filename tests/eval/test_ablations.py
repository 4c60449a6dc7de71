"""The ablations on a very small made-up collection: every kind of row, the claims, and the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from encoders.training import recipe_file
from encoders.training.recipe_file import load_recipe
from eval import ablations
from eval.ablation_rows import CLAIMS, ROWS, TRAINED
from eval.pools import pooled
from learned_sparse.collection import load_collection
from learned_sparse.home import vectors_folder
from learned_sparse.manifest import Manifest
from learned_sparse.trec import write_run
from tests.toy_data import save_collection, save_recipes

KEPT = ("SpaDE k=10", "SpaDE k=2", "UHD separate, tuned", "UHD query k=50")
POOL = "msmarco-mini-test-pool-10"


@pytest.fixture
def tiny_recipes(tmp_path: Path, tiny_headless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_recipes(tmp_path / "recipes", ["small-spade", "small-uhd"], tiny_headless, -0.5)
    monkeypatch.setattr(recipe_file, "RECIPES", folder)


@pytest.mark.jvm
def test_rows_are_measured_and_claims_judged(
    tmp_home: Path, tmp_path: Path, tiny_recipes: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {name: ROWS[name] for name in KEPT}
    monkeypatch.setattr(ablations, "ROWS", kept)
    monkeypatch.setattr(ablations, "TRAINED", {name: TRAINED[name] for name in ("spade", "uhd-separate")})
    monkeypatch.setattr(ablations, "CLAIMS", [c for c in CLAIMS if {c.better, c.worse} <= set(KEPT)])
    monkeypatch.setattr(ablations, "VERIFIED", 5)
    for name in ("msmarco-mini", "squad-sent"):
        save_collection(tmp_path / "data" / name, ("train", "dev", "test"))
    arguments = ["--data", str(tmp_path / "data"), "--output", str(tmp_path / "results")]
    assert ablations.main([*arguments, "--rows", "SpaDE k=2"]) == 0  # one row first: no report yet
    assert not (tmp_path / "results").exists()
    assert ablations.main(arguments) == 0

    found = json.loads((tmp_path / "results" / "ablations.json").read_text(encoding="utf-8"))
    rows = {row["row"]: row for row in found["results"]}
    assert set(rows) == {"bm25", *KEPT}
    assert rows["bm25"]["scores"]["R@100"] == 1.0
    for name in KEPT:
        assert set(rows[name]) >= {*ablations.COSTS, "scores"}
    settings = {
        name: Manifest.load(vectors_folder(POOL, ablations.slug(name))).encoder["settings"] for name in KEPT[:2]
    }
    assert {name: of["k"] for name, of in settings.items()} == {"SpaDE k=10": 10, "SpaDE k=2": 2}
    assert rows["UHD query k=50"]["index MB"] == rows["UHD separate, tuned"]["index MB"]
    assert [claim["claim"] for claim in found["claims"]] == ["SpaDE k=10: R@100 higher than SpaDE k=2"]
    assert found["claims"][0]["verdict"] == "not significant"  # twelve documents: both find all
    page = (tmp_path / "results" / "ablations.md").read_text(encoding="utf-8")
    assert "| SpaDE k=2 " in page
    assert "- uhd-separate: layer 1: 2 steps of 4 queries, then layer 2: 2 steps of 4 queries" in page


def test_every_model_has_a_recipe_that_takes_its_changes() -> None:
    for trained in TRAINED.values():
        changed = load_recipe(trained.recipe, changes=list(trained.changes))
        assert changed.architecture in {"spade", "uhd"}
    changes = list(TRAINED["spade-no-pruning"].changes)
    assert load_recipe("small-spade", changes=changes).stages[2].pruning is None
    stage = load_recipe("small-spade", changes=list(TRAINED["spade-no-cotraining"].changes)).stages[2]
    assert stage.cotraining is not None
    usual = load_recipe("small-spade").stages[2]
    assert usual.cotraining is not None
    selected = usual.cotraining.select_from * usual.cotraining.share
    updates = usual.steps * -(-round(selected) // usual.batch_size)
    assert (stage.cotraining.share, stage.steps) == (1.0, updates)  # as many updates as with selection


def test_a_pool_holds_what_is_relevant_and_what_was_found(tmp_home: Path, tmp_path: Path) -> None:
    source = save_collection(tmp_path / "source", ("test",))
    write_run(tmp_path / "run.txt", {"q0": [("d3", 2.0), ("d4", 1.0)], "q1": [("d3", 1.0)]}, "x")
    full = pooled(str(source), "toy", "test", tmp_path / "run.txt", 1)
    assert {d.id for d in load_collection(str(full)).documents()} == {f"d{i}" for i in range(12)}  # all are relevant
    (source / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td0\t1\nq1\td9\t0\n", encoding="utf-8")
    small = load_collection(str(pooled(str(source), "toy", "test", tmp_path / "run.txt", 1)))
    assert [d.id for d in small.documents()] == ["d0", "d3"]
    assert small.qrels("test") == {"q0": {"d0": 1}}
    assert [query.id for query in small.queries("test")] == ["q0"]


def test_an_unknown_row_is_named(tmp_home: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"corpus\.jsonl: no such file"):
        ablations.main(["--data", str(tmp_path)])
