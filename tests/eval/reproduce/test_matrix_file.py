"""The YAML file of a leaderboard: search path, placeholders, and the message of every error."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from encoders.checkpoints import FORMAT, CheckpointNotes, write_notes
from encoders.training import load_recipe, to_mapping
from eval.reproduce.matrix import (
    Column,
    Row,
    Training,
    columns_of_average,
    known_matrices,
    load_matrix,
    matrix_file,
    seeds_of,
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
        "SPLADE again": {"model": "SPLADE", "index_of": "SPLADE"},
        "Frozen": {"published": "a paper", "scores": {"pydoc": {"MRR@10": 0.5}}},
        "Frozen too": {"published": "a paper", "scores": {"pydoc": {"MRR@10": 0.5, "PISA ms/query": 12}}},
    } | extra


def claim(**parts: Any) -> dict[str, Any]:
    """A matrix with the claim that SPLADE is above BM25 in MRR@10, with ``parts`` changed."""
    return {
        "claims": [{"source": "a paper", "better": "SPLADE", "worse": "BM25", "quantity": "MRR@10"} | parts],
        "rows": rows(),
    }


def test_a_matrix_from_a_file(tmp_path: Path) -> None:
    path = saved(tmp_path, rows=rows(), baseline="BM25", hits=100)
    matrix = load_matrix(path)
    assert matrix.title == "Mine"
    assert matrix.hits == 100
    assert matrix.columns == {"pydoc": Column(collection="pydoc", split="test")}
    assert list(matrix.rows) == ["BM25", "SPLADE", "SPLADE again", "Frozen", "Frozen too"]
    assert [row.kind for row in matrix.rows.values()] == ["bm25", "recipe", "model", "published", "published"]
    assert matrix.rows["Frozen"].scores == {"pydoc": {"MRR@10": 0.5}}
    assert load_matrix(str(path)) == matrix


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
    assert set(known_matrices()) == {path.stem for path in matrix_file.MATRICES.iterdir()}


def test_a_key_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("title: a\nrows:\n  x: {bm25: text}\n  y: {bm25: text}\n  x: {bm25: text}\n", encoding="utf-8")
    with pytest.raises(LearnedSparseError, match=r"twice\.yaml:5: .*the key 'x' is given twice"):
        load_matrix(path)


def test_names_are_text_without_quotes(tmp_path: Path) -> None:
    assert list(load_matrix(saved(tmp_path, rows={2020: {"bm25": "text"}})).rows) == ["2020"]


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"row": {}}, "mine.yaml: unknown key 'row'; did you mean 'rows'"),
    ({"rows": {"a": {"recipes": "demo-splade"}}}, "rows: a: unknown key 'recipes'; did you mean 'recipe'"),
    ({"columns": {"a": PYDOC | {"spilt": "test"}}}, "columns: a: unknown key 'spilt'; did you mean 'split'"),
    ({"rows": {}}, "needs at least one row and one column"),
    ({"columns": {}}, "needs at least one row and one column"),
    ({"rows": {"a b": {"bm25": "text"}, "A-B": {"bm25": "text"}}}, "rows: 'A-B' and 'a b' would both be 'a-b'"),
    ({"rows": {"?": {"bm25": "text"}}}, "rows: '\\?' has no letter"),
    # columns
    ({"columns": {"a": PYDOC | {"collection": "scifct"}}}, "columns: a: collection 'scifct'.*did you mean 'scifact'"),
    ({"columns": {"a": PYDOC | {"split": "tst"}}}, "columns: a: .*no split 'tst'; did you mean 'test'"),
    ({"columns": {"a": PYDOC | {"measures": ["MRR@ten"]}}}, "columns: a: measure 'MRR@ten'"),
    ({"columns": {"a": PYDOC | {"pool": 0}}}, "columns: a: pool 0"),
    ({"hits": 50}, "columns: pydoc: R@100 looks at 100 results, a run has 50; set hits: 100"),
    # kinds of rows
    ({"rows": {"a": {"note": "nothing"}}}, "rows: a: give exactly one of bm25, recipe, .*; there is none"),
    ({"rows": {"a": {"bm25": "text"}, "b": {}}}, "rows: b: give exactly one of .*; there is none"),
    ({"rows": {"a": {"bm25": "text", "run": "x"}}}, "rows: a: give exactly one of .*; there is bm25 and run"),
    ({"rows": {"a": {"bm25": "words"}}}, "rows: a: bm25: 'words' is not one of 'text', 'word-pieces', 'expanded'"),
    ({"rows": {"a": {"bm25": "expanded"}}}, "rows: a: 'bm25: expanded' and 'expanded: FILE' belong together"),
    ({"rows": {"a": {"bm25": "text", "expanded": "x"}}}, "rows: a: 'bm25: expanded' and 'expanded: FILE' belong"),
    (
        {"rows": {"a": {"recipe": "spade", "expanded": "x", "changes": ["data=[{triples: t.tsv}]"]}}},
        "rows: a: 'expanded' needs training data of a collection: triples of texts have no ids",
    ),
    ({"rows": {"a": {"bm25": "text", "seeds": [1]}}}, "a: 'seeds' means nothing in a row of 'bm25', only of recipe"),
    ({"rows": {"a": {"run": "x", "encode": {"k": 1}}}}, "rows: a: 'encode' means nothing in a row of 'run'"),
    ({"rows": {"a": {"published": "x"}}}, "rows: a: a published row needs 'scores'"),
    ({"rows": {"a": {"bm25": "text", "scores": {"pydoc": {"MRR@10": 1}}}}}, "a: 'scores' means nothing in a row of"),
    ({"rows": {"a": {"bm25": "text", "tolerance": -1}}}, "rows: a: tolerance -1"),
    ({"rows": {"a": {"recipe": "demo-splad"}}}, "rows: a: no recipe 'demo-splad'; did you mean 'demo-splade'"),
    ({"rows": {"a": {"recipe": "demo-splade", "changes": ["sed=1"]}}}, "rows: a: .*'sed'; did you mean 'seed'"),
    ({"rows": {"a": {"bm25": "text", "options": ["--bits", "4"]}}}, "a: 'options' are of encoding, and 'bm25: text'"),
    ({"rows": {"a": {"bm25": "text", "backend": "exact"}}}, "a: 'backend' means nothing in a row of 'bm25'"),
    ({"rows": {"a": {"bm25": "text", "b": 1.5}}}, "a: k1 None, b 1.5; k1 is 0 or more, and b from 0 to 1"),
    ({"rows": {"a": {"recipe": "demo-splade", "k1": 1}}}, "a: 'k1' means nothing in a row of 'recipe'"),
    ({"rows": rows(Frozen={"published": "a", "scores": {"pydoc": {"MAP": 1}}, "tolerance": 1})}, "'tolerance' means"),
    # re-ranked rows, and the best of several
    ({"rows": rows(a={"cross_encoder": "x"})}, "a: name the row that is re-ranked: rerank: ROW"),
    ({"rows": rows(a={"model": "SPLADE", "depth": 9})}, "a: name the row that is re-ranked"),
    ({"rows": rows(a={"model": "SPLADE", "rerank": "BM25"})}, "a: depth None; give 1 to 1000, the documents of a run"),
    ({"rows": rows(a={"model": "SPLADE", "rerank": "BM24", "depth": 9})}, "a: no row 'BM24' with a run.*'BM25'"),
    ({"rows": rows(a={"model": "SPLADE", "rerank": "Frozen", "depth": 9})}, "a: no row 'Frozen' with a run"),
    (
        {"rows": rows(a={"model": "SPLADE", "rerank": "BM25", "depth": 9, "queries": {"k": 1}})},
        "a: 'queries' means nothing in a row that re-ranks: it searches no index",
    ),
    (
        {"rows": rows(a={"bm25": "text", "rerank": "SPLADE", "depth": 9})},
        "a: 'rerank' means nothing in a row of 'bm25'",
    ),
    (
        {"rows": rows(a={"recipe": "demo-uhd", "seeds": [1]}, b={"model": "SPLADE", "rerank": "a", "depth": 9})},
        "b: 'a' has trainings with seeds that this row has not",
    ),
    ({"rows": rows(a={"best_of": ["BM25", "SPLADE"]})}, "a: 'best_of: .*' and 'best_by: MEASURE' belong together"),
    ({"rows": rows(a={"best_of": ["BM25"], "best_by": "MRR@10"})}, "a: 'best_of: .*' and 'best_by: MEASURE' belong"),
    ({"rows": rows(a={"best_of": ["BM25", "Frozen"], "best_by": "MRR@10"})}, "a: no row 'Frozen' with a run"),
    ({"rows": rows(a={"fusion": ["BM25"]})}, "a: a fusion is of two or more rows"),
    ({"rows": rows(a={"fusion": ["BM25", "Frozen"]})}, "a: no row 'Frozen' with a run"),
    # samples and averages
    ({"columns": {"a": PYDOC | {"sample": {}}}}, "columns: a: sample: a sample needs a number of queries or"),
    ({"columns": {"a": PYDOC | {"sample": {"queries": 0}}}}, "columns: a: sample: queries 0; give at least 1"),
    ({"columns": {"a": PYDOC | {"overlap": "Match none"}}}, "columns: a: overlap: 'Match none' is not one of"),
    ({"averages": {"mean": ["pydoc"]}}, "averages: mean: an average is over two or more different columns"),
    ({"averages": {"mean": ["pydoc", "pydok"]}}, "averages: mean: no column and no earlier average 'pydok'"),
    ({"averages": {"Pydoc": ["a", "b"]}}, "averages: 'Pydoc' and 'pydoc' would both be 'pydoc'"),
    # other rows
    ({"rows": rows(a={"model": "SPLADEE"})}, "a: model: no row 'SPLADEE' with a recipe or.*mean 'SPLADE'"),
    ({"rows": rows(a={"model": "BM25"})}, "a: model: no row 'BM25' with a recipe"),
    ({"rows": rows(a={"model": "SPLADE again"})}, "a: model: no row 'SPLADE again' with a recipe"),
    ({"rows": rows(a={"model": "SPLADE", "index_of": "SPLAD"})}, "a: index_of: no row 'SPLAD' .*did you mean 'SPLADE'"),
    ({"rows": rows(a={"model": "SPLADE", "index_of": "SPLADE again"})}, "no row 'SPLADE again' with an index"),
    ({"rows": rows(a={"recipe": "demo-splade", "index_of": "a"})}, "a: index_of: no row 'a' with an index of its own"),
    ({"rows": rows(a={"recipe": "demo-uhd", "index_of": "SPLADE"})}, "has other weights; write model: SPLADE"),
    (
        {"rows": rows(a={"model": "SPLADE", "index_of": "SPLADE", "encode": {"k": 2}})},
        "a: index_of: the documents are those of 'SPLADE': give this row the same encode",
    ),
    # scores
    (
        {"rows": rows(a={"bm25": "text", "expected": {"pydok": {"MRR@10": 1}}})},
        "expected: no column 'pydok'; did you mean",
    ),
    (
        {"rows": rows(a={"bm25": "text", "expected": {"pydoc": {"MRR@11": 1}}})},
        "expected: pydoc: 'MRR@11' is not measured",
    ),
    (
        {"rows": rows(a={"bm25": "text", "expected": {"pydoc": {"FLOPS": 1}}})},
        "expected: pydoc: 'FLOPS' is not measured",
    ),
    ({"rows": rows(a={"published": "x", "scores": {"pydoc": {"FLOP": 1}}})}, "'FLOP' is not measured there; .*'FLOPS'"),
    # comparisons
    ({"baseline": "BM-25"}, "baseline: no row 'BM-25'; did you mean 'BM25'"),
    ({"baseline": "Frozen", "rows": rows()}, "baseline: 'Frozen' is a published row"),
    (claim(better="SPLAED"), r"claims\[0\]: no row 'SPLAED'; did you mean 'SPLADE'"),
    (claim(worse="Frozen", better="Frozen too"), r"claims\[0\]: 'Frozen too' and 'Frozen' are published; one row must"),
    (claim(worse="Frozen", quantity="R@100"), r"claims\[0\]: 'Frozen' has no R@100 on 'pydoc'"),
    (claim(margin=0.1), r"claims\[0\]: margin 0.1"),
    ({"test": "t-test"}, "unknown key 'test'"),
    ({"rows": rows(a={"published": "x", "scores": {"pydoc": {"ms/query": 1}}})}, "'ms/query' is not measured there"),
    (claim(worse="SPLADE"), r"claims\[0\]: 'SPLADE' is compared with itself"),
    (claim(columns=["pydocs"]), r"claims\[0\]: no column 'pydocs'; did you mean 'pydoc'"),
    ({"rows": {"a": {"bm25": "text", "columns": ["pydocs"]}}}, "a: columns: no column 'pydocs'; did you mean 'pydoc'"),
    ({"rows": rows(Frozen={"published": "a", "scores": {}, "columns": ["pydoc"]})}, "'columns' means nothing in a row"),
    (
        claim()
        | {"columns": {"pydoc": PYDOC, "b": PYDOC}, "rows": rows(SPLADE={"recipe": "demo-splade", "columns": ["b"]})},
        r"claims\[0\]: 'SPLADE' is not run on 'pydoc'; name the claim's columns",
    ),
    (claim(quantity="MRR"), r"claims\[0\]: pydoc: 'MRR' is not measured there; did you mean 'MRR@10'"),
    (claim(quantity="ms/queries"), r"'ms/queries' is not measured there; did you mean 'ms/query'"),
    (claim(kind="more"), "kind: 'more' is not one of 'higher', 'not lower', 'less'"),
]


@pytest.mark.parametrize(("parts", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_an_error_names_file_and_key(parts: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=message) as error:
        load_matrix(saved(tmp_path, **parts))
    assert str(error.value).startswith(str(tmp_path / "mine.yaml"))


def test_valid_combinations(tmp_path: Path) -> None:
    extra = {
        "checkpoint": {"checkpoint": "naver/splade", "options": ["--bits", "4"], "encode": {"k": 5}},
        "its index": {
            "checkpoint": "naver/splade", "index_of": "checkpoint", "options": ["--bits", "4"], "encode": {"k": 5},
            "queries": {"query_k": 9},
        },
        "costs": {"published": "x", "scores": {"pydoc": {"FLOPS": 1}}},
        "seeds": {"recipe": "demo-splade", "seeds": [1, 2]},
        "tuned": {"bm25": "text", "k1": 0.82, "b": 0.68},
        "re-ranked": {"cross_encoder": "a/b", "rerank": "seeds", "depth": 10},
        "re-ranked by ours": {"model": "SPLADE", "rerank": "tuned", "depth": 10, "encode": {"query_k": 9}},
        "best": {"best_of": ["BM25", "SPLADE", "re-ranked by ours"], "best_by": "MRR@10"},
        "fused": {"fusion": ["BM25", "SPLADE"]},
    }  # fmt: skip
    parts = claim(quantity="FLOPS", kind="less", columns=["pydoc"]) | {"rows": rows(**extra)}
    matrix = load_matrix(saved(tmp_path, **parts))
    assert matrix.claims[0].kind == "less"
    assert matrix.rows["seeds"] == Row(recipe="demo-splade", seeds=(1, 2))
    assert matrix.rows["its index"].queries == {"query_k": 9}
    assert seeds_of(matrix, "re-ranked") == (1, 2)
    assert seeds_of(matrix, "re-ranked by ours") == ()


def test_a_column_names_its_rows(tmp_path: Path) -> None:
    columns = {"pydoc": PYDOC, "few": PYDOC | {"rows": ["BM25", "also"]}, "other": PYDOC}
    matrix = load_matrix(
        saved(tmp_path, columns=columns, rows=rows(also={"bm25": "text", "k1": 1, "columns": ["pydoc"]}))
    )
    assert [matrix.rows[name].columns for name in ("BM25", "SPLADE", "also", "Frozen")] == [
        ("pydoc", "other", "few"), ("pydoc", "other"), ("pydoc", "few"), (),
    ]  # fmt: skip
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


def test_published_scores_are_expected_of_a_published_model(tmp_path: Path, tmp_home: Path) -> None:
    beir = load_matrix("beir", tmp_path)
    assert beir.rows["splade-tiny"].checkpoint == "rasyosef/splade-tiny"
    assert beir.rows["splade-tiny"].expected == {"BEIR-13": {"nDCG@10": 0.406}}
    dev = {"collection": "msmarco-v1-passage", "split": "dev"}
    models = {
        "by name": {"checkpoint": "splade-v3"},
        "by Hub id": {"checkpoint": "naver/splade-v3"},
        "its own": {"checkpoint": "splade-v3", "expected": {"dev": {"MRR@10": 0.3999}}},
        "changed": {"checkpoint": "splade-v3", "encode": {"pooling": "sum"}},
    }
    file = saved(tmp_path, rows=models, columns={"dev": dev, "pooled": {**dev, "pool": 100}})
    assert {name: row.expected for name, row in load_matrix(file, tmp_path).rows.items()} == {
        "by name": {"dev": {"MRR@10": 0.402}},
        "by Hub id": {"dev": {"MRR@10": 0.402}},
        "its own": {"dev": {"MRR@10": 0.3999}},
        "changed": {},
    }
    (tmp_home / "checkpoints" / "splade-v3").mkdir(parents=True)  # trained here, under the same name
    row = load_matrix(file, tmp_path).rows["by name"]
    assert (row.checkpoint, row.expected) == (str(tmp_home / "checkpoints" / "splade-v3"), {})


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
