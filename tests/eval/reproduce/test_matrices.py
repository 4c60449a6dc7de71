"""The shipped leaderboards load, and their published numbers equal those of the papers."""

from __future__ import annotations

import functools
import itertools
import math
from pathlib import Path

import pytest

from encoders.training import load_recipe, recipe_names
from eval import demo
from eval.reproduce.matrix import (
    MATRICES,
    Budget,
    Matrix,
    budget_of,
    column_measures,
    columns_of_average,
    known_matrices,
    load_matrix,
    recipe_of,
    seeds_of,
    slug,
)
from eval.reproduce.plan import make_plan
from learned_sparse.collections.collection import load_collection

SIZES = {  # rows, columns, claims
    "beir": (16, 29, 5),
    "demo": (7, 1, 3),
    "hybrid": (5, 4, 0),
    "msmarco-doc": (33, 3, 9),
    "msmarco-passage": (196, 7, 63),
    "small-real": (22, 5, 15),
    "trec-car": (19, 1, 3),
}


@functools.cache
def load(name: str) -> Matrix:
    """A shipped matrix; its data folder need not exist."""
    return load_matrix(name, Path("data"))


@pytest.mark.parametrize("name", known_matrices())
def test_every_shipped_matrix_loads(name: str) -> None:
    matrix = load(name)
    assert (len(matrix.rows), len(matrix.columns), len(matrix.claims)) == SIZES[name]
    assert matrix.baseline == "BM25"
    assert next(iter(matrix.rows)) == "BM25"  # the baseline first
    assert max(map(len, (MATRICES / f"{name}.yaml").read_text(encoding="utf-8").splitlines())) <= 120


@pytest.mark.parametrize("name", ["beir", "msmarco-doc", "msmarco-passage", "trec-car"])
def test_every_shipped_matrix_has_a_plan(name: str, tmp_home: Path) -> None:
    """Every cell has steps, whose names are names of files."""
    matrix = load(name)
    plan = make_plan(matrix, name, Path("data"))
    cells = {(cell.row, cell.column) for cell in plan.cells}
    assert cells == {
        (row, column) for row in matrix.rows for column in matrix.columns if matrix.rows[row].runs_on(column)
    }
    assert max(len(part) for step in plan.steps for part in Path(step.name).parts) < 150


def test_every_matrix_has_a_size() -> None:
    assert known_matrices() == sorted(SIZES)


@pytest.mark.parametrize("name", known_matrices())
def test_published_rows_are_named_after_their_source(name: str) -> None:
    for name_of_row, row in load(name).rows.items():
        if row.published is not None:
            source = name_of_row.rpartition("[")[2].removesuffix("]")
            assert row.published.startswith((f"{source}, ", f"{source} "))
        else:
            assert "[" not in name_of_row


# (matrix, row, column, measure, the number as the paper prints it, typed by hand)
PUBLISHED = [
    # SparTerm, Table 2: percent
    ("msmarco-passage", "BM25 [SparTerm]", "dev", "MRR@10", 18.6),
    ("msmarco-passage", "BM25 [SparTerm]", "dev", "R@1000", 85.71),
    ("msmarco-passage", "DeepCT [SparTerm]", "dev", "R@10", 49),
    ("msmarco-passage", "docT5query [SparTerm]", "dev", "R@100", 81.89),
    ("msmarco-passage", "SparTerm literal-only [SparTerm]", "dev", "MRR@10", 27.46),
    ("msmarco-passage", "SparTerm literal-only [SparTerm]", "dev", "R@1000", 91.16),
    ("msmarco-passage", "SparTerm expansion-only [SparTerm]", "dev", "MRR@10", 19.8),
    ("msmarco-passage", "SparTerm expansion-only [SparTerm]", "dev", "R@200", 77.62),
    ("msmarco-passage", "SparTerm expansion-enhanced [SparTerm]", "dev", "MRR@10", 27.94),
    ("msmarco-passage", "SparTerm expansion-enhanced [SparTerm]", "dev", "R@500", 89.5),
    ("msmarco-passage", "SparTerm expansion-enhanced [SparTerm]", "dev", "R@1000", 92.45),
    # SparTerm, Tables 4 and 3
    ("msmarco-passage", "SparTerm term frequencies of queries [SparTerm]", "dev-1000", "MRR@10", 25.7),
    ("msmarco-passage", "SparTerm, one set of weights [SparTerm]", "dev-1000", "R@1000", 94.7),
    ("msmarco-passage", "SparTerm weights of queries apart [SparTerm]", "dev-1000", "MRR@10", 25.4),
    ("msmarco-doc", "HDCT decay [SparTerm]", "dev", "MRR@10", 28.7),
    ("msmarco-doc", "BM25 MaxP [SparTerm]", "dev", "MRR@10", 23.6),
    ("msmarco-doc", "BM25 [SparTerm]", "dev", "MRR@10", 24.5),
    ("msmarco-doc", "SparTerm literal-only [SparTerm]", "dev", "MRR@10", 28.5),
    ("msmarco-doc", "SparTerm expansion-enhanced [SparTerm]", "dev", "MRR@10", 29.0),
    # SPLADE, Table 1
    ("msmarco-passage", "ANCE, dense [SPLADE]", "dl19", "nDCG@10", 0.648),
    ("msmarco-passage", "BM25 [SPLADE]", "dev", "FLOPS", 0.13),
    ("msmarco-passage", "docT5query [SPLADE]", "dl19", "R(rel=2)@1000", 0.827),
    ("msmarco-passage", "SparTerm expansion-enhanced [SPLADE]", "dev", "R@1000", 0.925),
    ("msmarco-passage", "ST lexical-only [SPLADE]", "dev", "MRR@10", 0.290),
    ("msmarco-passage", "ST lexical-only [SPLADE]", "dev", "FLOPS", 1.84),
    ("msmarco-passage", "ST exp-l1 [SPLADE]", "dev", "MRR@10", 0.314),
    ("msmarco-passage", "ST exp-l1 [SPLADE]", "dev", "FLOPS", 4.62),
    ("msmarco-passage", "ST exp-FLOPS [SPLADE]", "dev", "MRR@10", 0.312),
    ("msmarco-passage", "ST exp-FLOPS [SPLADE]", "dev", "FLOPS", 2.83),
    ("msmarco-passage", "ST exp-FLOPS [SPLADE]", "dl19", "nDCG@10", 0.671),
    ("msmarco-passage", "SPLADE-l1 [SPLADE]", "dev", "R@1000", 0.954),
    ("msmarco-passage", "SPLADE-l1 [SPLADE]", "dl19", "R(rel=2)@1000", 0.792),
    ("msmarco-passage", "SPLADE-l1 [SPLADE]", "dev", "FLOPS", 0.88),
    ("msmarco-passage", "SPLADE-FLOPS [SPLADE]", "dev", "MRR@10", 0.322),
    ("msmarco-passage", "SPLADE-FLOPS [SPLADE]", "dev", "R@1000", 0.955),
    ("msmarco-passage", "SPLADE-FLOPS [SPLADE]", "dl19", "nDCG@10", 0.665),
    ("msmarco-passage", "SPLADE-FLOPS [SPLADE]", "dl19", "R(rel=2)@1000", 0.813),
    ("msmarco-passage", "SPLADE-FLOPS [SPLADE]", "dev", "FLOPS", 0.73),
    ("msmarco-passage", "SPLADE-FLOPS, strong regularisation [SPLADE]", "dev", "MRR@10", 0.296),
    ("msmarco-passage", "SPLADE-FLOPS, strong regularisation [SPLADE]", "dev", "terms/query", 6),
    # SpaDE, Table 2
    ("msmarco-passage", "BM25 [SpaDE]", "dl20", "MAP(rel=2)", 0.289),
    ("msmarco-passage", "uniCOIL [SpaDE]", "dev", "MRR@10", 0.352),
    ("msmarco-passage", "DistilSPLADE-max [SpaDE]", "dev", "PISA ms/query", 1606),
    ("msmarco-passage", "DistilSPLADE-max [SpaDE]", "dev", "PISA index GB", 4.6),
    ("msmarco-passage", "DistilSPLADE-max [SpaDE]", "dl19", "nDCG@10", 0.728),
    ("msmarco-passage", "COIL-tok with docT5query [SpaDE]", "dl20", "nDCG@10", 0.715),
    ("msmarco-passage", "DeepImpact [SpaDE]", "dl19", "MAP(rel=2)", 0.457),
    ("msmarco-passage", "TILDEv2 [SpaDE]", "dev", "R@1000", 0.958),
    ("msmarco-passage", "SpaDE k=2 [SpaDE]", "dev", "MRR@10", 0.348),
    ("msmarco-passage", "SpaDE k=5 [SpaDE]", "dev", "MRR@10", 0.355),
    ("msmarco-passage", "SpaDE k=5 [SpaDE]", "dl20", "nDCG@10", 0.677),
    ("msmarco-passage", "SpaDE k=10 [SpaDE]", "dev", "R@1000", 0.968),
    ("msmarco-passage", "SpaDE k=10 [SpaDE]", "dl20", "MAP(rel=2)", 0.454),
    ("msmarco-passage", "SpaDE k=10 [SpaDE]", "dev", "PISA ms/query", 49),
    ("msmarco-passage", "SpaDE k=5 [SpaDE]", "dev", "PISA index GB", 2.3),
    # SpaDE, Tables 4 and 5
    ("msmarco-passage", "BM25 [SpaDE]", "dev, Match 0 or 1", "R@1000", 0.397),
    ("msmarco-passage", "TILDEv2 [SpaDE]", "dev, Match 0 or 1", "MAP", 0.140),
    ("msmarco-passage", "DeepCT [SpaDE]", "dev, Match above 1", "MRR@10", 0.223),
    ("msmarco-passage", "SpaDE k=10 [SpaDE]", "dev, Match above 1", "R@1000", 0.973),
    ("msmarco-passage", "SPLADE-doc [SpaDE]", "dev, Match all", "MAP", 0.553),
    ("msmarco-passage", "SpaDE k=10 [SpaDE]", "dev, Match all", "MRR@10", 0.557),
    ("msmarco-passage", "BM25, MiniLM on its top 10 [SpaDE]", "dev", "MRR@10", 0.285),
    ("msmarco-passage", "DeepImpact, MiniLM on its top 50 [SpaDE]", "dev", "MRR@10", 0.398),
    ("msmarco-passage", "SpaDE k=10, MiniLM on its top 20 [SpaDE]", "dev", "MRR@10", 0.400),
    # SpaDE, Tables 6, 7 and 3
    ("msmarco-passage", "SpaDE k=10 [SpaDE]", "dev", "MAP", 0.347),
    ("msmarco-passage", "SpaDE weighting only [SpaDE]", "dev", "MRR@10", 0.309),
    ("msmarco-passage", "SpaDE expansion only [SpaDE]", "dev", "MAP", 0.309),
    ("msmarco-passage", "SpaDE joint [SpaDE]", "dev", "MRR@10", 0.305),
    ("msmarco-passage", "SpaDE no co-training [SpaDE]", "dev", "MRR@10", 0.342),
    ("msmarco-passage", "SpaDE no docT5query [SpaDE]", "dev", "R@1000", 0.958),
    ("msmarco-passage", "SpaDE no pruning [SpaDE]", "dev", "PISA ms/query", 165),
    ("msmarco-passage", "SpaDE gamma=0.2 [SpaDE]", "dev", "MRR@10", 0.314),
    ("msmarco-doc", "SpaDE k=5 [SpaDE]", "dev", "MRR@100", 0.369),
    ("msmarco-doc", "SpaDE k=5 [SpaDE]", "dev", "R@100", 0.899),
    ("msmarco-doc", "HDCT [SpaDE]", "dev", "R@100", 0.843),
    ("msmarco-doc", "docT5query [SpaDE]", "dev", "MRR@100", 0.327),
    ("msmarco-doc", "uniCOIL with docT5query [SpaDE]", "dev", "R@100", 0.886),
    ("msmarco-doc", "ADORE, dense [SpaDE]", "dev", "MRR@100", 0.405),
    ("beir", "BM25 [SpaDE]", "fever", "nDCG@10", 0.753),
    ("beir", "DeepCT [SpaDE]", "nq", "nDCG@10", 0.188),
    ("beir", "docT5query [SpaDE]", "trec-covid", "nDCG@10", 0.713),
    ("beir", "SPLADE-doc [SpaDE]", "dbpedia-entity", "nDCG@10", 0.338),
    ("beir", "SpaDE k=10 [SpaDE]", "hotpotqa", "nDCG@10", 0.629),
    ("beir", "SpaDE k=10 [SpaDE]", "webis-touche2020", "nDCG@10", 0.276),
    ("beir", "SpaDE k=10 [SpaDE]", "scifact", "nDCG@10", 0.676),
    # UHD-BERT, Tables 1, 3, 4 and 6: percent
    ("msmarco-passage", "UHD-BERT query k=100 [UHD-BERT]", "dev", "MRR@10", 30.04),
    ("msmarco-passage", "UHD-BERT query k=100 [UHD-BERT]", "dev", "R@50", 77.77),
    ("msmarco-passage", "UHD-BERT query k=100 [UHD-BERT]", "dev", "R@200", 88.81),
    ("msmarco-passage", "UHD-BERT query k=100 [UHD-BERT]", "dev", "R@1000", 96.01),
    ("msmarco-passage", "UHD-BERT query k=50 [UHD-BERT]", "dev", "MRR@10", 29.50),
    ("msmarco-passage", "UHD-BERT all of a query [UHD-BERT]", "dev", "MRR@10", 28.99),
    ("msmarco-passage", "UHD-BERT binarised [UHD-BERT]", "dev", "MRR@10", 30.03),
    ("msmarco-passage", "ColBERT, dense [UHD-BERT]", "dev", "R@200", 92.3),
    ("msmarco-passage", "BERT large re-ranking [UHD-BERT]", "dev", "MRR@10", 36.5),
    ("msmarco-passage", "UHD-BERT one bucket of 49,152 [UHD-BERT]", "dev", "MRR@10", 26.18),
    ("msmarco-passage", "UHD-BERT joint [UHD-BERT]", "dev", "MRR@10", 25.58),
    ("msmarco-passage", "UHD-BERT separate [UHD-BERT]", "dev", "MRR@10", 27.08),
    ("msmarco-passage", "UHD-BERT separate, tuned [UHD-BERT]", "dev", "MRR@10", 27.41),
    ("trec-car", "BM25 [UHD-BERT]", "test", "MAP", 15.3),
    ("trec-car", "DeepCT [UHD-BERT]", "test", "MRR@10", 33.2),
    ("trec-car", "UHD-BERT query k=300 [UHD-BERT]", "test", "MRR@10", 37.32),
    ("trec-car", "UHD-BERT query k=300 [UHD-BERT]", "test", "MAP", 25.73),
    ("trec-car", "UHD-BERT query k=50 [UHD-BERT]", "test", "MRR@10", 34.10),
    # Pyserini
    ("msmarco-passage", "SPLADE-v3 [Pyserini]", "dl20", "MAP(rel=2)", 0.5402),
    ("msmarco-doc", "uniCOIL [Pyserini]", "dev", "MRR@100", 0.3531),
    ("beir", "BM25 on two fields [Pyserini]", "nfcorpus", "nDCG@10", 0.3254),
]  # fmt: skip


def test_published_numbers() -> None:
    matrices = {name: load(name) for name in known_matrices()}
    for name, row, column, measure, printed in PUBLISHED:
        percent = row.endswith(("[SparTerm]", "[UHD-BERT]"))
        expected = printed / 100 if percent else printed
        assert matrices[name].rows[row].scores[column][measure] == pytest.approx(expected, abs=1e-12), (name, row)


def test_all_rows_of_the_papers_are_present() -> None:
    counted = {
        paper: sum(row.endswith(f"[{paper}]") for row in load("msmarco-passage").rows)
        for paper in ("SparTerm", "SPLADE", "SpaDE", "UHD-BERT")
    }
    # SparTerm: Tables 2 and 4; SPLADE: Table 1 and a point of Figure 1; SpaDE: Tables 2, 6 and 5, a point of Figure 6
    # UHD-BERT: ten rows of Table 1, two binarised ones, five more of Table 4, five of Table 6
    assert counted == {"SparTerm": 7 + 3, "SPLADE": 13 + 1, "SpaDE": 16 + 6 + 16 + 1, "UHD-BERT": 10 + 2 + 5 + 5}


def test_claims_name_the_published_scores() -> None:
    """Where both rows have a published row of the claim's paper, the claim has their scores."""
    compared = 0
    for matrix in map(load, known_matrices()):
        for claim in matrix.claims:
            paper = claim.source.partition(",")[0]
            names = [side if side.endswith("]") else f"{side} [{paper}]" for side in (claim.better, claim.worse)]
            names = [name.replace("BM25, tuned", "BM25").replace("BM25 word pieces", "BM25") for name in names]
            for column in claim.columns or matrix.columns:
                values = [matrix.rows[n].scores.get(column, {}).get(claim.quantity) for n in names if n in matrix.rows]
                if len(values) < 2 or None in values or claim.published is None:
                    continue
                assert claim.published == pytest.approx(values, abs=1e-9), claim
                compared += 1
    assert compared >= 30


def test_segments_fit_their_encoders() -> None:
    """A segment has room for [CLS] and [SEP] in the length that its row encodes with."""
    for row in load("msmarco-doc").rows.values():
        words = dict(zip(row.options, row.options[1:], strict=False))
        if row.recipe is not None and "--segment-length" in words:
            recipe = load_recipe(row.recipe, changes=list(row.changes))
            limit = recipe.max_length if isinstance(recipe.max_length, int) else recipe.max_length.document
            assert int(words["--segment-length"]) + 2 <= int(words.get("--max-length", limit))


def test_averages_of_spade_table_3() -> None:
    rows, columns = load("beir").rows, list(load("beir").columns)
    averages = {
        "BM25": (0.404, 0.412), "DeepCT": (0.291, 0.273), "docT5query": (0.448, 0.408), "SPLADE-doc": (0.398, 0.329),
        "SpaDE k=10": (0.462, 0.374),
    }  # fmt: skip
    for name, (search, related) in averages.items():
        scores = [rows[f"{name} [SpaDE]"].scores[column]["nDCG@10"] for column in columns[:12]]
        assert sum(scores[:6]) / 6 == pytest.approx(search, abs=0.0006), name
        assert sum(scores[6:]) / 6 == pytest.approx(related, abs=0.0006), name
        published = rows[f"{name} [SpaDE]"].scores
        assert published["search tasks"] == {"nDCG@10": search}
        assert published["semantic relatedness tasks"] == {"nDCG@10": related}
    assert load("beir").averages["search tasks"] == tuple(columns[:6])
    assert load("beir").averages["semantic relatedness tasks"] == tuple(columns[6:12])
    assert len(columns_of_average(load("beir"), "BEIR")) == 17 + 12


@pytest.mark.parametrize("name", ["beir", "msmarco-doc", "msmarco-passage", "trec-car"])
def test_expected_scores_of_bm25_are_those_of_the_collections(name: str) -> None:
    matrix = load(name)
    expected = matrix.rows["BM25"].expected
    assert expected.keys() == {key for key, column in matrix.columns.items() if not (column.sample or column.overlap)}
    for column, scores in expected.items():
        where = matrix.columns[column]
        (known, *_) = load_collection(where.collection).split(where.split).expected
        assert known.system.startswith("BM25")
        assert scores == known.scores


def test_bm25_on_scifact_is_compared_with_anserini() -> None:
    matrix = load("small-real")
    known = load_collection("scifact").split("test").expected[0].scores
    assert matrix.rows["BM25"].expected == {"scifact": {key: known[key] for key in ("nDCG@10", "R@100")}}
    assert matrix.rows["BM25"].tolerance == 0.0005


def test_the_demo_matrix_has_the_models_of_make_demo() -> None:
    matrix = load("demo")
    models = {slug(name): row.recipe for name, row in matrix.rows.items()}
    assert models == dict.fromkeys(map(slug, demo.READY)) | {model: f"demo-{model}" for model in demo.MODELS}
    (column,) = matrix.columns.values()
    assert (column.collection, column.split, matrix.hits) == (demo.COLLECTION, demo.SPLIT, 1000)
    assert column_measures(column) == ("MRR@10", "R@100")


def test_small_real_measures_whole_collections() -> None:
    matrix = load("small-real")
    assert [column.pool or column.sample for column in matrix.columns.values()] == [None] * 5
    assert matrix.columns["msmarco-mini DL19"].measures == ("nDCG@10", "R(rel=2)@100")  # relevant from grade 2
    everywhere = {name for name, row in matrix.rows.items() if all(map(row.runs_on, matrix.columns))}
    assert everywhere == {"BM25", "BM25 word pieces", "SparTerm", "SPLADE", "SpaDE k=10", "UHD"}
    assert matrix.training is not None
    assert [Path(name).name for name in matrix.training.data] == ["msmarco-mini:train"]


def test_every_network_of_small_real_is_trained_for_one_epoch() -> None:
    """5,980 training queries (SOURCE.md of msmarco-mini); no row learns from dev queries."""
    matrix = load("small-real")
    budgets = {budget_of(recipe_of(row, matrix.training)) for row in matrix.rows.values() if row.recipe}
    assert budgets == {Budget(networks=frozenset({(5984, 374)}), trials=0, mixes=False)}
    assert 0 <= 5984 - 5980 < 16


def test_superiority_claims_of_small_real_have_three_trainings() -> None:
    matrix = load("small-real")
    compared = [claim for claim in matrix.claims if claim.kind == "higher"]
    trained = {side for claim in compared for side in (claim.better, claim.worse) if side != "BM25"}
    assert {len(seeds_of(matrix, row)) for row in trained} == {3}
    assert len(compared) == 13


def test_curves_of_small_real_have_five_lambdas_in_geometric_steps() -> None:
    matrix = load("small-real")
    for curve in ("SPLADE max FLOPS", "SPLADE max l1"):
        recipes = [recipe_of(row, matrix.training) for row in matrix.rows.values() if row.curve == curve]
        regularizers = [recipe.stages[0].regularizer for recipe in recipes]
        lambdas = [one.lambda_document for one in regularizers]
        assert [one.lambda_query for one in regularizers] == lambdas
        steps = [later / earlier for earlier, later in itertools.pairwise(lambdas)]
        assert len(lambdas) == 5
        assert max(steps) / min(steps) < 1.2
        assert min(steps) > 2.9
        assert len({one.kind for one in regularizers}) == 1


def test_trec_car_is_trained_for_one_epoch() -> None:
    row = load("trec-car").rows["UHD-BERT all of a query"]
    (stage,) = load_recipe(str(row.recipe), changes=list(row.changes)).stages
    assert stage.steps == math.ceil(4_214_713 / stage.batch_size)  # pairs of the four folds; "1.0 epoch" (Appendix A.1)


def test_claims_about_times_say_that_queries_are_not_encoded() -> None:
    claims = [claim for name in known_matrices() for claim in load(name).claims]
    timed = [claim for claim in claims if claim.quantity in ("ms/query", "mean ms/query")]
    assert timed
    for claim in timed:
        assert "search" in claim.source or "without encoding" in claim.source, claim.source
        assert "network" not in claim.source


def test_every_recipe_of_a_paper_has_a_row() -> None:
    used = {row.recipe for row in load("msmarco-passage").rows.values()}
    assert used - {None} == {name for name in recipe_names() if not name.startswith(("demo-", "small-", "fine-tune-"))}
    used = {row.recipe for row in load("small-real").rows.values()}
    assert used - {None} == {name for name in recipe_names() if name.startswith("small-")}
