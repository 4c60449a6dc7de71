"""The shipped leaderboards load, can be planned, and fit the recipes and collections that they name."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest

from encoders.training.recipe import load_recipe
from eval.reproduce.matrix import Matrix, known_matrices, load_matrix
from eval.reproduce.plan import make_plan
from learned_sparse.collections.collection import load_collection


@functools.cache
def load(name: str) -> Matrix:
    """A shipped matrix; its data folder need not exist."""
    return load_matrix(name, Path("data"))


@pytest.mark.parametrize("name", known_matrices())
def test_every_shipped_matrix_has_a_plan(name: str, tmp_home: Path) -> None:
    """Every cell has steps, whose names are names of files; collections below the data folder are absent here."""
    matrix = load(name)
    assert matrix.baseline == next(iter(matrix.rows)) == "BM25"
    here = [key for key, column in matrix.columns.items() if not column.collection.startswith("data/")]
    plan = make_plan(matrix, name, Path("data"), lenient=True)
    assert {(cell.row, cell.column) for cell in plan.cells} == {
        (key, column) for key in matrix.rows for column in here if matrix.runs_on(key, column)
    }
    assert max((len(part) for step in plan.steps for part in Path(step.name).parts), default=0) < 150


def test_claims_name_the_published_scores() -> None:
    """Where both rows have a published row of the claim's paper, the claim has their scores."""
    compared = 0
    for matrix in map(load, known_matrices()):
        for claim in matrix.claims:
            paper = claim.source.partition(",")[0]
            names = [side if side.endswith("]") else f"{side} [{paper}]" for side in (claim.better, claim.worse)]
            names = [name.replace("BM25, tuned", "BM25").replace("BM25 word pieces", "BM25") for name in names]
            for column in claim.columns or matrix.columns:
                rows = [row for n in names if (row := matrix.rows.get(n)) and row.published]
                values = [row.scores.get(column, {}).get(claim.quantity) for row in rows]
                if len(values) < 2 or None in values or claim.published is None:
                    continue
                assert claim.published == pytest.approx(values, abs=1e-9), claim
                compared += 1
    assert compared >= 30


def test_segments_fit_their_encoders() -> None:
    """A segment has room for [CLS] and [SEP], and for as long an expansion and its [SEP], in the length of its row."""
    for row in load("msmarco-doc").rows.values():
        words = dict(itertools.pairwise(row.options))
        if "--segment-length" in words and row.recipe:
            recipe = load_recipe(row.recipe, changes=list(row.changes))
            limit = recipe.max_length if isinstance(recipe.max_length, int) else recipe.max_length["document"]
            segment, length = int(words["--segment-length"]), int(words.get("--max-length", limit))
            assert (2 * segment + 3 if row.expanded else segment + 2) <= length


@pytest.mark.parametrize("name", ["beir", "msmarco-doc", "msmarco-passage", "trec-car"])
def test_expected_scores_of_bm25_are_those_of_the_collections(name: str) -> None:
    matrix = load(name)
    expected = matrix.rows["BM25"].expected
    whole = {name: on for name, on in matrix.columns.items() if not (on.sample or on.overlap or on.flops_queries)}
    assert expected.keys() == whole.keys()
    for column, scores in expected.items():
        where = matrix.columns[column]
        (known, *_) = load_collection(where.collection).split(where.split).expected
        assert known.system.startswith("BM25")
        assert scores == known.scores
