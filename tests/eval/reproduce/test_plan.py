"""Plans of leaderboards: the commands, their order and output paths, and the keys of equal work."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from encoders.training import load_recipe
from encoders.training import recipe as recipe_file
from eval.reproduce.matrix import (
    BestOfRow,
    BM25Row,
    Column,
    CrossEncoderRow,
    FusionRow,
    GivenRow,
    Matrix,
    OtherModelRow,
    PublishedRow,
    RecipeRow,
    Row,
    Sample,
    Training,
    slug,
)
from eval.reproduce.plan import Plan, Weights, expected_terms, make_plan, set_words
from eval.reproduce.runner import Runner
from eval.reproduce.steps import Step
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import home
from learned_sparse.core.settings import parse_changes
from tests.toy_data import save_collection, save_recipes


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


def plan_of(data: Path, rows: Mapping[str, Row], **options: Any) -> Plan:
    columns = options.pop("columns", {"toy": Column(collection=str(data / "toy"), split="test")})
    training = Training(data=(f"{data}/toy:train",), negatives=5, validation=str(data / "toy"))
    options = {"training": training, "plain_names": True, **options}
    return make_plan(Matrix(title="", columns=columns, rows=rows, **options), "m", data)


def kinds(plan: Plan) -> list[str]:
    return [step.kind for step in plan.steps]


def by_name(plan: Plan) -> dict[str, Step]:
    return {step.name: step for step in plan.steps}


def test_bm25_is_indexed_searched_and_measured(data: Path) -> None:
    plan = plan_of(data, {"BM25": BM25Row(bm25="text")}, hits=10)
    assert kinds(plan) == ["index-bm25", "search", "evaluate", "costs"]
    assert plan.steps[1].command == (
        f"python -m learned_sparse.search --bm25 --index {home()}/indexes/toy/bm25 --collection {data}/toy "
        f"--split test --hits 10 --output {home()}/runs/toy/test/bm25.txt --threads 2 --batch-size 64"
    )
    (cell,) = plan.cells
    assert cell.run == home() / "runs" / "toy" / "test" / "bm25.txt"
    assert cell.evaluated in plan.steps[2].writes
    assert cell.costs in plan.steps[3].writes
    assert [step.disk_bytes > 0 for step in plan.steps] == [True, False, False, False]


def test_a_row_runs_on_the_columns_it_names(data: Path) -> None:
    columns = {name: Column(collection=str(data / name), split="test") for name in ("toy", "other")}
    rows = {"BM25": BM25Row(bm25="text"), "pieces": BM25Row(bm25="word-pieces", columns=("other",))}
    plan = plan_of(data, rows, columns=columns)
    assert [(cell.row, cell.column) for cell in plan.cells] == [("BM25", "toy"), ("BM25", "other"), ("pieces", "other")]
    assert "vectors/toy/pieces" not in by_name(plan)


def test_a_recipe_is_trained_on_the_data_of_the_matrix(data: Path) -> None:
    changes = ("seed=7", "validation={collection: msmarco-mini, split: dev, every: 9}")
    plan = plan_of(
        data, {"splade": RecipeRow(recipe="small-splade"), "spade": RecipeRow(recipe="small-spade", changes=changes)}
    )
    steps = by_name(plan)
    trained = steps["checkpoints/splade"]
    run = home() / "runs" / "toy" / "train" / "bm25.txt"
    assert trained.arguments[2:-2] == ("--data", f"{data}/toy:train", "--set", f"data.0.run={run}")
    assert trained.needs == (steps["runs/toy/train/bm25.txt"],)
    assert trained.facts["recipe"]["data"][0]["run"] == str(run)
    validated = steps["checkpoints/spade"].arguments
    assert validated[-10:-2] == (
        "--set", "seed=7", "--set", changes[1], "--set", f"data.0.run={run}",
        "--set", f"validation.collection={data}/toy",
    )  # fmt: skip
    order = [step.name for step in plan.cells[0].steps]
    assert order == [
        "indexes/toy/bm25", "runs/toy/train/bm25.txt", "checkpoints/splade", "vectors/toy/splade",
        "indexes/toy/splade", "runs/toy/test/splade.txt", "evaluations/toy/test/splade.json",
        "queries/toy/test/splade", "costs/toy/test/splade.json",
    ]  # fmt: skip


def test_rows_share_checkpoints_and_indexes(data: Path) -> None:
    rows = {
        "spade": RecipeRow(recipe="small-spade"),
        "spade k=2": OtherModelRow(model="spade", encode={"k": 2}, options=("--bits", "4", "--device", "cpu")),
        "few": OtherModelRow(model="spade", index_of="spade", queries={"query_k": None}),
        "exact": OtherModelRow(model="spade", backend="exact"),
    }
    plan = plan_of(data, rows, verify=3, dtype="fp32")
    steps = by_name(plan)
    assert kinds(plan).count("train") == 1
    checkpoint = str(home() / "checkpoints" / "spade")
    of_two, named = (
        ("--collection", f"{data}/toy", "--checkpoint", checkpoint, "--dtype", "fp32"),
        ("--model", "spade-k-2"),
    )
    bits = ("--bits", "4", "--device", "cpu", "--set", "k=2")
    assert steps["vectors/toy/spade-k-2"].arguments == (*of_two, *bits, *named)
    queries = ("--device", "cpu", "--set", "k=2", "--queries", "--split", "test")  # bits change documents only
    assert steps["queries/toy/test/spade-k-2"].arguments == (*of_two, *queries, *named)
    assert "vectors/toy/few" not in steps
    few = ("--set", "query_k=null", "--queries", "--split", "test", "--model", "few")
    assert steps["queries/toy/test/few"].arguments[-7:] == few
    searched = steps["runs/toy/test/few.txt"]
    assert searched.arguments[:4] == ("--model", "spade", "--set", "query_k=null")
    assert searched.arguments[-2:] == ("--output", str(home() / "runs" / "toy" / "test" / "few.txt"))
    assert searched.needs == (steps["verified/toy/spade"],)
    assert steps["verified/toy/spade"].needs == (steps["indexes/toy/spade"],)
    assert steps["verified/toy/spade"].writes == ()
    assert "indexes/toy/exact" not in steps
    assert steps["runs/toy/test/exact.txt"].arguments[:4] == ("--model", "exact", "--backend", "exact")
    assert "--index" not in steps["costs/toy/test/exact.json"].arguments


def test_each_seed_is_a_training(data: Path) -> None:
    rows = {
        "splade": RecipeRow(recipe="small-splade", seeds=(1, 2)),
        "small": OtherModelRow(model="splade", options=("--top-k", "9")),
    }
    plan = plan_of(data, rows)
    assert [(cell.row, cell.seed) for cell in plan.cells] == [("splade", 1), ("splade", 2), ("small", 1), ("small", 2)]
    steps = by_name(plan)
    assert steps["checkpoints/splade-seed-2"].arguments[-3] == f"data.0.run={home()}/runs/toy/train/bm25.txt"
    assert "seed=2" in steps["checkpoints/splade-seed-2"].arguments
    assert steps["vectors/toy/small-seed-2"].needs == (steps["checkpoints/splade-seed-2"],)
    assert kinds(plan).count("train") == 2


def test_sizes_of_latent_vectors_follow_from_the_settings(data: Path) -> None:
    """small-real measured 810 dimensions a document, with three buckets and 8 winners of each token."""
    small = Weights(checkpoint="x", stem="x", architecture="uhd", settings={"k": 8, "layers": [2, 3, 4]})
    assert expected_terms(small, {}) == pytest.approx(810, rel=0.05)
    assert expected_terms(small, {"k": 16}) == pytest.approx(1620, rel=0.05)
    assert expected_terms(small, {"layers": [4]}) == pytest.approx(270, rel=0.05)
    assert expected_terms(small, {"document_k": 100}) == 100
    assert expected_terms(small, {"document_k": 100, "document_k_scope": "bucket"}) == 300
    assert expected_terms(dataclasses.replace(small, settings={}), {}) > 15_000  # the paper's six buckets
    sizes = {}
    for name in ("UHD", "k=2"):
        rows = {"UHD": RecipeRow(recipe="small-uhd"), "k=2": OtherModelRow(model="UHD", encode={"k": 2})}
        steps = by_name(plan_of(data, rows))
        sizes[name] = steps[f"vectors/toy/{slug(name)}"].disk_bytes
    k = load_recipe("small-uhd").settings["k"]
    assert sizes["UHD"] / sizes["k=2"] == pytest.approx(k / 2, rel=0.05)


def test_bm25_with_other_parameters_searches_the_same_index(data: Path) -> None:
    rows = {
        "BM25": BM25Row(bm25="text"),
        "tuned": BM25Row(bm25="text", k1=0.82, b=0.68),
        "pieces": BM25Row(bm25="word-pieces", k1=0.82, b=0.68),
    }
    plan = plan_of(data, rows)
    steps = by_name(plan)
    assert kinds(plan).count("index-bm25") == 1
    assert steps["runs/toy/test/tuned.txt"].needs == (steps["indexes/toy/bm25"],)
    for name in ("tuned", "pieces"):
        for step in (f"runs/toy/test/{name}.txt", f"costs/toy/test/{name}.json"):
            assert "--k1 0.82 --b 0.68" in steps[step].command
    assert plan.cells[1].run == home() / "runs" / "toy" / "test" / "tuned.txt"


def test_a_row_re_ranks_the_run_of_another(data: Path) -> None:
    rows = {
        "BM25": BM25Row(bm25="text"),
        "spade": RecipeRow(recipe="small-spade", rerank="BM25", depth=5, encode={"k": 2}),
        "cross": CrossEncoderRow(cross_encoder="a/b", rerank="BM25", depth=3, options=("--max-length", "64")),
        "given": GivenRow(run=str(data / "toy" / "run.txt")),
        "again": OtherModelRow(model="spade", rerank="given", depth=2),
        "best": BestOfRow(best_of=("spade", "cross", "given"), best_by="MRR@10"),
    }
    plan = plan_of(data, rows, hits=10, dtype="fp32")
    steps, cells = by_name(plan), {cell.row: cell for cell in plan.cells}
    searched, trained = steps["runs/toy/test/bm25.txt"], steps["checkpoints/spade"]
    folder = home() / "reranked" / "toy" / "test"
    step = steps["reranked/toy/test/spade"]
    assert step.needs == (trained, searched)
    assert step.arguments == (
        "--collection", f"{data}/toy", "--split", "test", "--run", f"first={searched.writes[0]}", "--depth", "5",
        "--checkpoint", str(trained.writes[0]), "--set", "k=2", "--dtype", "fp32", "--output", str(folder / "spade"),
    )  # fmt: skip
    assert cells["spade"].run == folder / "spade" / "first-top5.txt"
    assert cells["spade"].costs is None
    assert "vectors/toy/spade" not in steps  # nothing is encoded, indexed or searched
    assert "--cross-encoder a/b --max-length 64 --dtype fp32" in steps["reranked/toy/test/cross"].command
    assert steps["reranked/toy/test/again"].reads[-1] == data / "toy" / "run.txt"
    best = steps["runs/toy/test/best.txt"]
    assert best.needs == (step, steps["reranked/toy/test/cross"])
    assert f"--measure MRR@10 --run {cells['spade'].run} {cells['cross'].run} {data}/toy/run.txt" in best.command


def test_a_sample_holds_the_top_of_bm25(data: Path) -> None:
    sample = Sample(queries=3, documents=9, seed=4)
    columns = {"sample": Column(collection=str(data / "toy"), split="test", pool=2, sample=sample)}
    plan = plan_of(data, {"BM25": BM25Row(bm25="text")}, columns=columns, hits=10)
    steps, name = by_name(plan), "toy-test-sample-3-queries-9-documents-pool-2-seed-4"
    drawn = steps[f"data/{name}"]
    assert drawn.needs == (steps["runs/toy/test/bm25.txt"],)
    assert drawn.arguments == (
        "sample", "--collection", f"{data}/toy", "--split", "test", "--queries", "3", "--documents", "9",
        "--seed", "4", "--run", str(drawn.needs[0].writes[0]), "--depth", "2", "--output", str(drawn.writes[0]),
    )  # fmt: skip
    assert steps[f"indexes/{name}/bm25"].needs == (drawn,)


def test_a_class_of_queries_shares_all_but_the_evaluation(data: Path) -> None:
    whole = Column(collection=str(data / "toy"), split="test")
    columns = {"all": whole, "few": dataclasses.replace(whole, overlap="Match <= 1", measures=("MRR@10",))}
    plan = plan_of(data, {"BM25": BM25Row(bm25="text")}, columns=columns)
    steps = by_name(plan)
    assert kinds(plan) == ["index-bm25", "search", "evaluate", "costs", "pool", "evaluate"]
    classified, evaluated = steps["data/toy-test-overlap"], steps["evaluations/toy/test/bm25-match-1.json"]
    assert classified in evaluated.needs
    qrels = str(classified.writes[0] / "match-1.txt")
    assert f"--qrels {qrels} --measures MRR@10 --per-query" in evaluated.command


def test_given_runs_are_measured_and_published_rows_need_nothing(data: Path) -> None:
    run = data / "runs" / "{collection}" / "{split}.txt"
    rows = {
        "given": GivenRow(run=str(run)),
        "paper": PublishedRow(published="a paper", scores={"toy": {"MRR@10": 0.3}}),
    }
    plan = plan_of(data, rows)
    assert kinds(plan) == ["evaluate"]
    assert plan.cells[0].run == data / "runs" / "toy" / "test.txt"
    assert plan.cells[0].run in plan.steps[0].reads
    with pytest.raises(LearnedSparseError, match=r"test\.txt: no such file"):
        assert plan.steps[0].key


def test_rows_and_columns_can_be_chosen(data: Path) -> None:
    columns = {name: Column(collection=str(data / name), split="test") for name in ("toy", "other")}
    matrix = Matrix(
        title="", columns=columns, rows={"BM25": BM25Row(bm25="text"), "pieces": BM25Row(bm25="word-pieces")}
    )
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
    rows = {"splade": RecipeRow(recipe="small-splade")}
    with pytest.raises(LearnedSparseError, match=r"two steps of this matrix write .*runs/toy/train/bm25\.txt"):
        plan_of(data, {"BM25": BM25Row(bm25="text"), **rows}, columns=columns, hits=10)


def test_names_depend_on_everything_that_changes_the_result(data: Path, tmp_path: Path) -> None:
    rows = {"spade": RecipeRow(recipe="small-spade")}

    def plan(rows: Mapping[str, Row], **options: Any) -> Plan:
        return plan_of(data, rows, plain_names=False, **options)

    before = by_name(plan(rows)).keys()
    assert before == by_name(plan(rows)).keys()

    def changed(plan: Plan) -> set[str]:
        return {step.kind for step in plan.steps if step.name not in before}

    measured = {"search", "evaluate", "costs"}
    encoded = {"encode", "encode-queries", "index", *measured}
    assert changed(plan({"spade": RecipeRow(recipe="small-spade", changes=("seed=3",))})) == {"train", *encoded}
    assert changed(plan({"spade": RecipeRow(recipe="small-spade", encode={"k": 2})})) == encoded
    assert changed(plan(rows, hits=9)) == measured
    recipe = tmp_path / "recipes" / "small-spade.yaml"
    recipe.write_text(recipe.read_text("utf-8").replace("\nseed: 0\n", "\nseed: 5\n"), "utf-8")
    assert changed(plan(rows)) == {"train", *encoded}
    corpus = data / "toy" / "corpus.jsonl"
    corpus.write_text(corpus.read_text("utf-8").replace("python", "cobra"), "utf-8")
    assert changed(plan(rows)) == {"index-bm25", "train", *encoded}


def test_matrices_share_what_is_equal_whatever_their_rows_are_called(data: Path) -> None:
    """The second plan has the training, the vectors and the index of the first, and trains another recipe elsewhere."""
    first = plan_of(data, {"SpaDE": RecipeRow(recipe="small-spade")}, plain_names=False)
    trained: list[str] = []

    def execute(step: Step) -> str | None:
        trained.extend([step.name] if step.kind == "train" else [])
        for path in step.writes:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.name, encoding="utf-8")
        return None

    Runner(first.steps, execute).run()
    rows = {
        "the same": RecipeRow(recipe="small-spade"), "SpaDE": RecipeRow(recipe="small-spade", changes=("seed=1",)),
        "k=2": OtherModelRow(model="the same", encode={"k": 2}),
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
    rows = {"spade": RecipeRow(recipe="small-spade"), "pieces": BM25Row(bm25="word-pieces")}
    before = {step.name: step.key for step in plan_of(data, rows, plain_names=False).steps}
    data.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(tmp_path / "another home"))
    after = plan_of(tmp_path / "elsewhere", rows, plain_names=False)
    assert before == {step.name: step.key for step in after.steps}


def test_steps_for_documents_are_the_same_on_every_split(data: Path) -> None:
    columns = {split: Column(collection=str(data / "toy"), split=split) for split in ("dev", "test")}
    rows = {"BM25": BM25Row(bm25="text"), "pieces": BM25Row(bm25="word-pieces")}
    both = {step.name: step.key for step in plan_of(data, rows, columns=columns).steps}
    for split, column in columns.items():
        single = {step.name: step.key for step in plan_of(data, rows, columns={split: column}).steps}
        assert single.items() <= both.items()


def test_arguments_without_effect_are_not_in_the_key(data: Path) -> None:
    step = plan_of(data, {"BM25": BM25Row(bm25="text")}).steps[1]
    assert dataclasses.replace(step, unkeyed_arguments=("--threads", "9")).key == step.key
    assert dataclasses.replace(step, arguments=(*step.arguments, "--k1", "2")).key != step.key


@pytest.mark.parametrize("value", [2, 0.3, None, True, "both", "null", "1e-3", [2, 12], [1.0, 2.0], {"a": [1, "b: c"]}])
def test_settings_are_read_back(value: object) -> None:
    (_, word) = set_words({"key": value})
    assert parse_changes([word]) == {"key": value}


def test_predicted_queries_of_a_row_reach_training_and_encoding(data: Path) -> None:
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
    plan = plan_of(data, rows, columns=columns)
    steps = by_name(plan)
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


def test_a_row_joins_its_model_with_bm25(data: Path) -> None:
    rows = {
        "splade": RecipeRow(recipe="small-splade", changes=("validation=null",)),
        "both": OtherModelRow(model="splade", options=("--with", "bm25", "--bits", "4"), queries={"hybrid_alpha": 0.3}),
        "pruned": OtherModelRow(
            model="splade", options=("--with", "bm25", "--bits", "4"), prune=("--top-dimensions", "9")
        ),
        "fused": FusionRow(fusion=("splade", "both")),
    }
    steps = by_name(plan_of(data, rows, training=Training(data=(f"{data}/toy:train",))))
    vectors = str(home() / "vectors" / "toy" / "both")
    both = ("--collection", f"{data}/toy", "--checkpoint", str(home() / "checkpoints" / "splade"))
    assert steps["vectors/toy/both"].arguments == (*both, "--with", "bm25", "--bits", "4", "--model", "both")
    queries = steps["queries/toy/test/both"]  # BM25's part of them is described by the documents
    assert queries.arguments[: len(both)] == both
    assert queries.arguments[len(both) :][:4] == ("--set", "hybrid_alpha=0.3", "--with", vectors)
    assert steps["vectors/toy/both"] in queries.needs
    assert steps["runs/toy/test/both.txt"].arguments[2:4] == ("--set", "hybrid_alpha=0.3")

    pruned = steps["vectors/toy/pruned-pruned"]
    source, target = (str(home() / "vectors" / "toy" / name) for name in ("pruned", "pruned-pruned"))
    assert pruned.arguments == ("prune", "--vectors", source, "--top-dimensions", "9", "--output", target)
    assert steps["queries/toy/test/pruned"].arguments[len(both) :][:2] == ("--with", target)
    assert steps["indexes/toy/pruned-pruned"].needs == (pruned,)

    fused = steps["runs/toy/test/fused.txt"]
    runs = [str(home() / "runs" / "toy" / "test" / f"{name}.txt") for name in ("splade", "both")]
    assert fused.arguments[:7] == ("fusion", "--method", "rrf", "--depth", "1000", "--k", "1000")
    assert fused.arguments[7:] == ("--runs", *runs, "--output", str(fused.writes[0]))
    assert fused.needs == (steps["runs/toy/test/splade.txt"], steps["runs/toy/test/both.txt"])
