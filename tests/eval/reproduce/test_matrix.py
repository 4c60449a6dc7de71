"""The YAML file of a leaderboard: search path, placeholders, and the message of every error."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.checkpoints.notes import FORMAT, CheckpointNotes, write_notes
from encoders.training.recipe import load_recipe, to_mapping
from eval.reproduce.matrix import (
    MATRICES,
    Training,
    columns_of_average,
    known_matrices,
    load_matrix,
    slug,
)
from learned_sparse.collections.collection import DATA_VARIABLE
from learned_sparse.core.errors import LearnedSparseError

PYDOC = {"collection": "pydoc", "split": "test"}


def saved(folder: Path, **parts: Any) -> Path:
    """A matrix file with a title, one column, BM25, and ``parts``."""
    path = folder / "mine.yaml"
    content = {"title": "Mine", "columns": {"pydoc": PYDOC}, "rows": {"BM25": {"bm25": "text"}}} | parts
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path


def rows(**extra: Any) -> dict[str, Any]:
    """BM25, a trained row, a row that searches its index, a published row, and ``extra``."""
    return {
        "BM25": {"bm25": "text"},
        "SPLADE": {"recipe": "demo-splade"},
        "SPLADE again": {"model": "SPLADE"},
        "Frozen": {"published": "a paper", "scores": {"pydoc": {"MRR@10": 0.5}}},
        "Frozen too": {"published": "a paper", "scores": {"pydoc": {"MRR@10": 0.5, "PISA ms/query": 12}}},
    } | extra


def claim(**parts: Any) -> dict[str, Any]:
    """A matrix with the claim that SPLADE is above BM25 in MRR@10, with ``parts`` changed."""
    return {
        "claims": [{"source": "a paper", "better": "SPLADE", "worse": "BM25", "quantity": "MRR@10"} | parts],
        "rows": rows(),
    }


def test_the_data_folder_is_filled_in_everywhere(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        columns={"set": {"collection": "{data}/set", "split": "test", "measures": ["MRR@10"]}},
        training={"data": ["{data}/set:train"], "validation": "{data}/set"},
        rows={
            "a": {"run": "{data}/runs/{collection}/{split}.txt"},
            "b": {"bm25": "expanded", "expanded": "{data}/{collection}/expanded.jsonl"},
            "c": {"recipe": "demo-splade", "changes": ["backbone='{data}/bert'"]},
        },
    )
    matrix = load_matrix(path, Path("there"))
    assert matrix.columns["set"].collection == "there/set"
    assert matrix.training == Training(data=("there/set:train",), validation="there/set")
    assert matrix.rows["a"].run == "there/runs/{collection}/{split}.txt"
    assert matrix.rows["b"].expanded == "there/{collection}/expanded.jsonl"
    assert matrix.rows["c"].changes == ("backbone='there/bert'",)


def test_the_data_folder_defaults_to_that_of_collections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "data"))
    path = saved(tmp_path, columns={"set": {"collection": "{data}/set", "split": "test", "measures": ["MRR@10"]}})
    with pytest.raises(LearnedSparseError, match=r"columns: set: .*data/set: no such folder; name yours with --data"):
        load_matrix(path)
    (tmp_path / "data" / "set").mkdir(parents=True)
    assert load_matrix(path).columns["set"].collection == str(tmp_path / "data" / "set")


def test_names_of_matrices(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match="no matrix 'demos'; did you mean 'demo'"):
        load_matrix("demos")
    with pytest.raises(LearnedSparseError, match=r"absent\.yaml: no such file"):
        load_matrix(tmp_path / "absent.yaml")
    assert slug("UHD separate, tuned") == "uhd-separate-tuned"
    assert set(known_matrices()) == {path.stem for path in MATRICES.iterdir()}


BOTH = {"columns": {"pydoc": PYDOC, "b": PYDOC}}
MISTAKES: list[tuple[dict[str, Any], str]] = [  # what is wrong, and a part of the error: the key, the name that is near
    ({"row": {}}, "'row'; did you mean 'rows'"),
    ({"rows": {}}, "at least one row"),
    ({"rows": {"a": "text"}}, "rows: a: "),
    # a row has the keys of its kind
    ({"rows": {"a": {"note": "nothing"}}}, "rows: a: .*bm25, recipe, .*none"),
    ({"rows": {"a": {"bm25": "text", "run": "x"}}}, "rows: a: .*bm25 and run"),
    ({"rows": {"a": {"bm25": "text", "seeds": [1]}}}, "rows: a: unknown key 'seeds'"),
    ({"rows": {"a": {"bm25": "expanded"}}}, "rows: a: .*'expanded: FILE'"),
    ({"rows": {"a": {"bm25": "text", "options": ["--bits", "4"]}}}, "rows: a: 'options'"),
    ({"rows": {"a": {"bm25": "text", "b": 1.5}}}, "rows: a: .*b 1.5"),
    ({"rows": rows(a={"model": "SPLADE", "expansion": "queries"})}, "rows: a: 'expansion' needs 'expanded: FILE'"),
    ({"rows": rows(a={"model": "SPLADE", "depth": 9})}, "rows: a: 'rerank: ROW' and 'depth"),
    ({"rows": rows(a={"model": "SPLADE", "rerank": "BM25", "depth": 9, "queries": {"k": 1}})}, "rows: a: 'queries'"),
    # names that exist
    ({"columns": {"a": PYDOC | {"collection": "scifct"}}}, "columns: a: .*did you mean 'scifact'"),
    ({"columns": {"a": PYDOC | {"measures": ["MRR@ten"]}}}, "columns: a: measure 'MRR@ten'"),
    ({"columns": {"a": PYDOC | {"sample": {"queries": 0}}}}, "columns: a: sample: queries 0"),
    ({"rows": {"a": {"bm25": "text", "columns": ["pydocs"]}}}, "rows: a: .*did you mean 'pydoc'"),
    ({"rows": {"a": {"recipe": "demo-splad"}}}, "rows: a: .*did you mean 'demo-splade'"),
    ({"rows": rows(a={"model": "SPLADE again"})}, "rows: a: model: "),
    ({"rows": rows(a={"model": "SPLADE", "rerank": "Frozen", "depth": 9})}, "rows: a: no row 'Frozen'"),
    ({"rows": rows(a={"fusion": ["BM25"]})}, "rows: a: fusion: name two or more rows"),
    ({"baseline": "Frozen", "rows": rows()}, "baseline: no row 'Frozen' that is run"),
    ({"averages": {"mean": ["pydoc", "pydok"]}}, "averages: mean: .*'pydok'"),
    ({"rows": rows(a={"bm25": "text", "expected": {"pydoc": {"FLOPS": 1}}})}, "rows: a: .*'FLOPS'"),
    # what cannot be measured
    ({"hits": 50}, "columns: pydoc: R@100 looks at 100 results, a run has 50"),
    ({"rows": rows(a={"model": "SPLADE", "rerank": "BM25", "depth": 2000})}, "rows: a: depth 2000"),
    (
        {"rows": rows(a={"recipe": "demo-uhd", "seeds": [1]}, b={"model": "SPLADE", "rerank": "a", "depth": 9})},
        "rows: b: 'a' has trainings with seeds",
    ),
    (
        {"rows": {"a": {"recipe": "spade", "expanded": "x", "changes": ["data=[{examples: t.tsv}]"]}}},
        "rows: a: 'expanded' needs training data of a collection",
    ),
    # claims
    (claim(better="SPLAED"), r"claims\[0\]: .*'SPLADE'"),
    (claim(worse="Frozen", better="Frozen too"), r"claims\[0\]: .*one of them ours"),
    (claim(worse="Frozen", quantity="R@100"), r"claims\[0\]: 'Frozen' has no R@100"),
    (claim(quantity="MRR"), r"claims\[0\]: pydoc: .*'MRR@10'"),
    (
        claim() | BOTH | {"rows": rows(SPLADE={"recipe": "demo-splade", "columns": ["b"]})},
        r"claims\[0\]: 'SPLADE' is not run on 'pydoc'",
    ),
]


@pytest.mark.parametrize(("parts", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_an_error_names_file_and_key(parts: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message) as error:
        load_matrix(saved(tmp_path, **parts))
    assert str(error.value).startswith(str(tmp_path / "mine.yaml"))


def test_a_column_names_its_rows(tmp_path: Path) -> None:
    columns = {"pydoc": PYDOC, "few": PYDOC | {"rows": ["BM25", "also"]}, "other": PYDOC}
    matrix = load_matrix(
        saved(tmp_path, columns=columns, rows=rows(also={"bm25": "text", "k1": 1, "columns": ["pydoc"]}))
    )
    assert {name: [column for column in columns if matrix.runs_on(name, column)] for name in matrix.rows} == {
        "BM25": ["pydoc", "few", "other"], "SPLADE": ["pydoc", "other"], "SPLADE again": ["pydoc", "other"],
        "Frozen": [], "Frozen too": [], "also": ["pydoc", "few"],
    }  # fmt: skip
    with pytest.raises(LearnedSparseError, match="columns: few: no row 'Frozen' to run"):
        load_matrix(saved(tmp_path, columns=columns | {"few": PYDOC | {"rows": ["Frozen"]}}, rows=rows()))


def test_averages_of_averages_weigh_each_part_equally(tmp_path: Path) -> None:
    columns = dict.fromkeys(("a", "b", "c"), PYDOC)
    averages = {"forums": ["a", "b"], "all": ["forums", "c"]}
    matrix = load_matrix(saved(tmp_path, columns=columns, averages=averages))
    assert columns_of_average(matrix, "all") == {"a": 0.25, "b": 0.25, "c": 0.5}


TRAINED = {"recipe": "demo-splade", "changes": ["data=[{collection: pydoc, split: test}]"]}
SELECTED = {"recipe": "demo-spade", "changes": ["validation.split=test"]}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"A": TRAINED}, "rows: A: column 'pydoc' reports pydoc:test, and the row is trained on pydoc:test"),
        ({"A": SELECTED}, "rows: A: column 'pydoc' reports pydoc:test, and the row is selected on pydoc:test"),
        ({"A": TRAINED | {"columns": ["other"]}, "B": {"model": "A"}}, "rows: B: column 'pydoc' reports pydoc:test"),
    ],
)
def test_a_row_is_not_reported_on_queries_it_learned_from(rows: dict[str, Any], message: str, tmp_path: Path) -> None:
    columns = {"pydoc": PYDOC, "other": {"collection": "pydoc", "split": "dev"}}
    with pytest.raises(LearnedSparseError, match=message):
        load_matrix(saved(tmp_path, rows=rows, columns=columns))
    for row in rows.values():
        row["columns"] = ["other"]
    load_matrix(saved(tmp_path, rows=rows, columns=columns))


def test_splits_with_queries_in_common_count_as_one(tmp_path: Path) -> None:
    """msmarco-mini holds dev queries: a model trained there is not reported on dev, but on another part of mini."""
    training = {"data": ["{data}/msmarco-mini:train"], "validation": "{data}/msmarco-mini"}
    dev = {"collection": "msmarco-v1-passage", "split": "dev"}
    mini = {"collection": "{data}/msmarco-mini", "split": "test", "measures": ["MRR@10"]}
    row = {"A": {"recipe": "small-splade"}}
    with pytest.raises(
        LearnedSparseError, match=r"'dev' reports msmarco-v1-passage:dev, .* trained on msmarco-mini:train"
    ):
        load_matrix(saved(tmp_path, rows=row, columns={"dev": dev}, training=training))
    load_matrix(saved(tmp_path, rows=row, columns={"mini": mini}, training=training), tmp_path)
    selected = {"A": {"recipe": "small-spade", "changes": ["validation={collection: mini, split: test, every: 9}"]}}
    with pytest.raises(LearnedSparseError, match=r"'mini' reports msmarco-mini:test, .* selected on msmarco-mini:test"):
        load_matrix(saved(tmp_path, rows=selected, columns={"mini": mini}, training=training), tmp_path)
    on_dev = {"A": {"recipe": "splade-flops", "changes": ["validation={collection: msmarco-v1-passage, every: 1}"]}}
    with pytest.raises(
        LearnedSparseError, match=r"'mini' reports msmarco-mini:test, .* selected on msmarco-v1-passage:dev"
    ):
        load_matrix(saved(tmp_path, rows=on_dev, columns={"mini": mini}), tmp_path)
    load_matrix(saved(tmp_path, rows={"A": {"recipe": "splade-flops"}}, columns={"dev": dev}))


def test_checkpoints_are_named_as_in_commands(tmp_path: Path, tmp_home: Path) -> None:
    file = saved(tmp_path, rows={"by name": {"checkpoint": "splade-v3"}})
    assert load_matrix(file, tmp_path).rows["by name"].checkpoint == "naver/splade-v3"
    (tmp_home / "checkpoints" / "splade-v3").mkdir(parents=True)  # trained here, under the same name
    row = load_matrix(file, tmp_path).rows["by name"]
    assert row.checkpoint == str(tmp_home / "checkpoints" / "splade-v3")


def test_the_recipe_that_a_checkpoint_records_is_checked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recipe = to_mapping(load_recipe("demo-splade", data=["pydoc:test"]))
    notes = CheckpointNotes(
        format=FORMAT, architecture="splade", settings={}, vocabulary_size=9,
        max_length={"query": 8, "document": 8}, quantizers={"query": None, "document": None}, recipe=recipe,
    )  # fmt: skip
    write_notes(tmp_path / "mine", notes)
    rows = {"A": {"checkpoint": "{data}/mine"}}
    with pytest.raises(LearnedSparseError, match="rows: A: column 'pydoc' reports pydoc:test, and the row is trained"):
        load_matrix(saved(tmp_path, rows=rows), tmp_path)
    write_notes(tmp_path / "mine", dataclasses.replace(notes, recipe=None))
    load_matrix(saved(tmp_path, rows=rows), tmp_path)
    write_notes(tmp_path / "mine", dataclasses.replace(notes, recipe={"no": "recipe of this version"}))
    load_matrix(saved(tmp_path, rows=rows), tmp_path)
    assert "row 'A': it is unknown on which queries its checkpoint was trained: " in caplog.text


def test_folds_train_on_what_they_do_not_report(tmp_path: Path) -> None:
    training = {"data": ["{data}/mini:train+dev@not{seed}of3"]}
    mini = {"collection": "{data}/mini", "split": "train+dev@{seed}of3", "measures": ["MRR@10"]}
    row = {"A": {"recipe": "small-splade", "seeds": [1, 2, 3]}}

    def load(rows: dict[str, Any] = row, data: dict[str, Any] = training, **column: str) -> None:
        load_matrix(saved(tmp_path, rows=rows, columns={"mini": mini | column}, training=data), tmp_path)

    load()
    load(split="dev@{seed}of3")
    for split in ("dev", "train+dev", "train@2of3"):
        with pytest.raises(LearnedSparseError, match="queries in common"):
            load(split=split)
    with pytest.raises(LearnedSparseError, match="queries in common"):
        load(data={"data": ["{data}/mini:train"]})
    with pytest.raises(LearnedSparseError, match=r"seeds: \[1, 2, 3\]"):
        load({"A": {"recipe": "small-splade"}})


def test_a_start_that_learned_from_queries_is_of_the_same_fold(tmp_path: Path) -> None:
    training = {"data": ["{data}/mini:train@not{seed}of3"]}
    columns = {"mini": {"collection": "{data}/mini", "split": "train@{seed}of3", "measures": ["MRR@10"]}}
    start: dict[str, Any] = {"recipe": "small-splade", "columns": ["pydoc"]}
    row = {"recipe": "small-splade", "start": "start", "seeds": [1, 2, 3], "columns": ["mini"]}

    def load(**changed: Any) -> None:
        rows = {"start": start | changed, "A": row}
        load_matrix(saved(tmp_path, rows=rows, columns=columns | {"pydoc": PYDOC}, training=training), tmp_path)

    load(seeds=[1, 2, 3])
    load(changes=["stages.0.objective=mlm"])
    with pytest.raises(LearnedSparseError, match="'start' learns from queries"):
        load()
