"""Plans of leaderboards: the commands, their order and output paths, and the keys of equal work."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from encoders.training import recipe as recipe_file
from encoders.training.recipe import load_recipe
from eval.reproduce.matrix import Column, Matrix, Row, Training, load_matrix
from eval.reproduce.plan import Plan, expected_terms, make_plan, set_words
from eval.reproduce.runner import Runner
from eval.reproduce.steps import Step
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse_changes
from tests.toy_data import save_collection, save_recipes

HERE = Path(__file__).parent


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two collections of twelve documents, and a recipe that validates on one of them."""
    for name in ("toy", "other"):
        save_collection(tmp_path / "data" / name, ("train", "dev", "test"))
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def _recipes(tmp_path: Path, tmp_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["small-splade", "small-spade", "small-sparterm", "small-uhd"]
    folder = save_recipes(tmp_path / "recipes", names, tmp_path / "backbone")
    monkeypatch.setattr(recipe_file, "RECIPES", folder)


def plan_of(data: Path, rows: dict[str, Row], **options: Any) -> Plan:
    columns = options.pop("columns", {"toy": Column(collection=str(data / "toy"), split="test")})
    training = Training(data=(f"{data}/toy:train",), negatives=5, validation=str(data / "toy"))
    options = {"training": training, "plain_names": True, **options}
    return make_plan(Matrix(title="", columns=columns, rows=rows, **options), "m", data)


def by_name(plan: Plan) -> dict[str, Step]:
    return {step.name: step for step in plan.steps}


def test_the_steps_of_every_kind_of_row(data: Path) -> None:
    """``plan.txt`` has the steps of ``plan.yaml``, with inputs and commands (* has an estimated size), and cells."""
    plan = make_plan(load_matrix(HERE / "plan.yaml", data), "m", data)
    lines = []
    for step in plan.steps:
        inputs = ", ".join([*(need.name for need in step.needs), *map(str, step.reads)])
        lines += [f"{step.name}{'*' if step.disk_bytes else ''}: {inputs}", f"  {step.command}"]
    for cell in plan.cells:
        costs = cell.run.costs and cell.run.costs.output
        parts = (cell.row, cell.column, cell.seed, cell.evaluated.output, costs, cell.run.checkpoint)
        lines.append(" | ".join(map(str, parts)))
    assert [plan.steps[0].neutral(line) for line in lines] == (HERE / "plan.txt").read_text("utf-8").splitlines()
    assert "--threads 9" in make_plan(plan.matrix, "m", data, rows=["spade"], threads=9).steps[0].command


def test_sizes_of_latent_vectors_follow_from_the_settings(data: Path) -> None:
    """small-real measured 810 dimensions a document, with three buckets and 8 winners of each token."""
    recipe = load_recipe("small-uhd")
    length = {**recipe.max_length, "document": 128}
    small = dataclasses.replace(recipe, settings={"k": 8, "layers": [2, 3, 4]}, max_length=length)
    assert expected_terms(small, {}) == pytest.approx(810, rel=0.05)
    assert expected_terms(small, {"k": 16}) == pytest.approx(1620, rel=0.05)
    assert expected_terms(small, {"layers": [4]}) == pytest.approx(270, rel=0.05)
    assert expected_terms(small, {"document_k": 100}) == 100
    assert expected_terms(small, {"document_k": 100, "document_k_scope": "bucket"}) == 300
    assert expected_terms(dataclasses.replace(small, settings={}), {}) > 15_000  # the paper's six buckets


def test_a_given_run_must_exist(data: Path) -> None:
    plan = plan_of(data, {"given": Row(run=str(data / "{collection}" / "{split}.txt"))})
    with pytest.raises(LearnedSparseError, match=r"toy/test\.txt: no such file"):
        assert plan.steps[0].key


def test_rows_and_columns_can_be_chosen(data: Path) -> None:
    columns = {name: Column(collection=str(data / name), split="test") for name in ("toy", "other")}
    matrix = Matrix(title="", columns=columns, rows={"BM25": Row(bm25="text"), "pieces": Row(bm25="word-pieces")})
    plan = make_plan(matrix, "m", data, rows=["BM25"], columns=["other"])
    assert [(cell.row, cell.column) for cell in plan.cells] == [("BM25", "other")]
    assert [cell.row for cell in make_plan(matrix, "m", data, rows=["BM*"], columns=["toy"]).cells] == ["BM25"]
    with pytest.raises(LearnedSparseError, match="--row BM24: not in this matrix; did you mean 'BM25'"):
        make_plan(matrix, "m", data, rows=["BM24"])
    columns["gone"] = Column(collection=str(data / "gone"), split="test")
    with pytest.raises(LearnedSparseError, match="gone"):
        make_plan(matrix, "m", data)
    assert len(make_plan(matrix, "m", data, lenient=True).cells) == 4


def test_two_steps_with_one_output_are_refused(data: Path) -> None:
    columns = {str(split): Column(collection=str(data / "toy"), split=split) for split in ("train", "test")}
    rows = {"splade": Row(recipe="small-splade")}
    with pytest.raises(LearnedSparseError, match=r"two steps of this matrix write .*runs/toy/train/bm25\.txt"):
        plan_of(data, {"BM25": Row(bm25="text"), **rows}, columns=columns, hits=10)


def test_names_depend_on_everything_that_changes_the_result(data: Path, tmp_path: Path) -> None:
    rows = {"spade": Row(recipe="small-spade")}

    def plan(rows: dict[str, Row], **options: Any) -> Plan:
        return plan_of(data, rows, plain_names=False, **options)

    before = by_name(plan(rows)).keys()
    assert before == by_name(plan(rows)).keys()

    def changed(plan: Plan) -> set[str]:
        return {step.kind for step in plan.steps if step.name not in before}

    measured = {"search", "evaluate", "costs"}
    encoded = {"encode", "encode-queries", "index", *measured}
    assert changed(plan({"spade": Row(recipe="small-spade", changes=("seed=3",))})) == {"train", *encoded}
    assert changed(plan({"spade": Row(recipe="small-spade", encode={"k": 2})})) == encoded
    assert changed(plan(rows, hits=9)) == measured
    recipe = tmp_path / "recipes" / "small-spade.yaml"
    recipe.write_text(recipe.read_text("utf-8").replace("\nseed: 0\n", "\nseed: 5\n"), "utf-8")
    assert changed(plan(rows)) == {"train", *encoded}
    corpus = data / "toy" / "corpus.jsonl"
    corpus.write_text(corpus.read_text("utf-8").replace("python", "cobra"), "utf-8")
    assert changed(plan(rows)) == {"index-bm25", "train", *encoded}


def test_matrices_share_what_is_equal_whatever_their_rows_are_called(data: Path) -> None:
    """The second plan has the training, the vectors and the index of the first, and trains another recipe elsewhere."""
    first = plan_of(data, {"SpaDE": Row(recipe="small-spade")}, plain_names=False)
    trained: list[str] = []

    def execute(step: Step) -> int:
        trained.extend([step.name] if step.kind == "train" else [])
        step.output.parent.mkdir(parents=True, exist_ok=True)
        step.output.write_text(step.name, encoding="utf-8")
        return 0

    Runner(first.steps, execute).run()
    rows = {
        "the same": Row(recipe="small-spade"), "SpaDE": Row(recipe="small-spade", changes=("seed=1",)),
        "k=2": Row(model="the same", encode={"k": 2}),
    }  # fmt: skip
    second = plan_of(data, rows, plain_names=False, hits=20)
    runner = Runner(second.steps, execute)
    assert [step.kind for step in second.cells[0].steps if step in runner.todo] == ["search", "evaluate", "costs"]
    runner.run()
    assert len(trained) == 2
    assert trained[0].startswith("checkpoints/small-spade-")
    assert trained[1].startswith("checkpoints/small-spade-seed-1-")
    assert any(step.name.startswith("vectors/toy/small-spade-k-2-") for step in second.steps)
    assert not Runner(first.steps, execute).todo


def test_keys_and_names_do_not_depend_on_paths(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"spade": Row(recipe="small-spade"), "pieces": Row(bm25="word-pieces")}
    before = {step.name: step.key for step in plan_of(data, rows, plain_names=False).steps}
    data.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(tmp_path / "another home"))
    after = plan_of(tmp_path / "elsewhere", rows, plain_names=False)
    assert before == {step.name: step.key for step in after.steps}


def test_steps_for_documents_are_the_same_on_every_split(data: Path) -> None:
    columns = {split: Column(collection=str(data / "toy"), split=split) for split in ("dev", "test")}
    rows = {"BM25": Row(bm25="text"), "pieces": Row(bm25="word-pieces")}
    both = {step.name: step.key for step in plan_of(data, rows, columns=columns).steps}
    for split, column in columns.items():
        single = {step.name: step.key for step in plan_of(data, rows, columns={split: column}).steps}
        assert single.items() <= both.items()


def test_arguments_without_effect_are_not_in_the_key(data: Path) -> None:
    step = plan_of(data, {"BM25": Row(bm25="text")}).steps[1]
    assert dataclasses.replace(step, unkeyed_arguments=("--threads", "9")).key == step.key
    assert dataclasses.replace(step, arguments=(*step.arguments, "--k1", "2")).key != step.key


@pytest.mark.parametrize("value", [2, 0.3, None, True, "both", "null", "1e-3", [2, 12], [1.0, 2.0], {"a": [1, "b: c"]}])
def test_settings_are_read_back(value: object) -> None:
    (_, word) = set_words({"key": value})
    assert parse_changes([word]) == {"key": value}


def test_folds_are_trained_and_measured_apart(data: Path) -> None:
    start = Row(recipe="small-splade", changes=("stages.0.objective=mlm",), columns=("other",))
    rows = {"S": start, "BM25": Row(bm25="text"), "A": Row(recipe="small-splade", seeds=(1, 2), start="S")}
    columns = {"toy": Column(collection=str(data / "toy"), split="train+dev@{seed}of2")}
    training = Training(data=(f"{data}/toy:train+dev@not{{seed}}of2",), negatives=5, validation=str(data / "toy"))
    plan = plan_of(data, rows, columns=columns, training=training)
    assert [(cell.row, cell.seed) for cell in plan.cells] == [("BM25", 1), ("BM25", 2), ("A", 1), ("A", 2)]
    for cell in plan.cells:
        (evaluated,) = (step for step in cell.steps if step.kind == "evaluate")
        assert f"train+dev@{cell.seed}of2" in evaluated.arguments
        trained = [step for step in cell.steps if step.kind == "train"]
        assert len(trained) == (2 if cell.row == "A" else 0)
        if trained:
            assert f"{data}/toy:train+dev@not{cell.seed}of2" in trained[1].arguments
            assert f"backbone={trained[0].output}" in trained[1].arguments
