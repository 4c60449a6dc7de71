"""Measures equal trec_eval's, with ties, missing queries, unjudged documents and grades."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.measures.measures import Scores, evaluate
from eval.measures.notation import parse_measure
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.lucene.java import anserini_jar, java_environment

pytestmark = pytest.mark.jvm

MEASURES = [
    "MRR@2",
    "MRR",
    "R@1",
    "R@2",
    "R(rel=2)@2",
    "MAP",
    "MAP(rel=2)",
    "MAP@2",
    "nDCG@2",
    "nDCG@10",
    "P@5",
    "P(rel=2)@1",
]
MEASURES += ["Success@1", "Rprec", "MRR(rel=2)@2"]

QRELS = {
    "ties": {"d1": 1, "d2": 2, "d3": 0},
    "missing": {"d1": 1},
    "hopeless": {"d9": 0},  # judged, and nothing found relevant
    "graded": {"d3": 2, "d4": 1, "d5": 3},
    "negative": {"d1": -2, "d2": 1},
}
RUN = {
    "ties": [("d1", 1.5), ("d2", 1.5), ("d3", 1.5), ("d7", 1.0)],  # by trec_eval's rule d3, d2, d1, d7
    "hopeless": [("d9", 3.0)],
    "graded": [("d4", 0.30000001), ("unjudged", 0.3), ("d5", 0.2), ("d3", -1e-7)],
    "negative": [("d1", 2.0), ("d2", 1.0)],
    "not-judged": [("d1", 1.0)],
}

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, list[tuple[str, float]]]


def by_hand(folder: Path, measure: str, qrels: Qrels, run: Run) -> dict[str, float]:
    """One call of trec_eval for one measure, on files that hold just what is in ``qrels`` and ``run``."""
    judgements = [f"{query} 0 {document} {grade}\n" for query, of in qrels.items() for document, grade in of.items()]
    results = [f"{query} Q0 {document} 7 {score!r} tag\n" for query, hits in run.items() for document, score in hits]
    (folder / "qrels").write_text("".join(judgements))
    (folder / "run").write_text("".join(results))
    command = ["java", "-cp", str(anserini_jar()), "trec_eval", "-q", *parse_measure(measure).arguments]
    answer = subprocess.run(
        [*command, str(folder / "qrels"), str(folder / "run")],
        env=java_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split() for line in answer.stdout.splitlines()]
    assert lines, answer.stderr
    return {query: float(value) for _, query, value in lines}


@pytest.fixture(scope="module")
def scores() -> Scores:
    """All measures at once: they share calls of trec_eval, and must not get in each other's way."""
    return evaluate(QRELS, RUN, MEASURES)


def test_measures_come_in_the_order_asked_for(scores: Scores) -> None:
    assert list(scores.mean) == list(scores.per_query) == MEASURES


@pytest.mark.parametrize("measure", MEASURES)
def test_means_and_queries_equal_trec_evals(measure: str, scores: Scores, tmp_path: Path) -> None:
    expected = by_hand(tmp_path, measure, QRELS, RUN)
    assert scores.mean[measure] == expected.pop("all")
    assert scores.per_query[measure] == {query: expected.get(query, 0.0) for query in QRELS}


def test_values_by_pencil() -> None:
    scores = evaluate(QRELS, RUN, ["MRR@10", "MRR@1", "MAP(rel=2)", "nDCG@10", "R(rel=2)@1000", "P@2"])
    # In trec_eval's order (ids descending in a tie, and scores are 32-bit floats, so that 0.30000001 ties with 0.3):
    # ties d3 d2 d1 d7; graded unjudged d4 d5 d3. The mean is over five queries.
    assert scores.per_query["MRR@10"] == {"ties": 0.5, "missing": 0, "hopeless": 0, "graded": 0.5, "negative": 0.5}
    assert scores.mean["MRR@10"] == 0.3
    assert scores.mean["MRR@1"] == 0
    assert scores.per_query["MAP(rel=2)"]["graded"] == pytest.approx((1 / 3 + 2 / 4) / 2, abs=5e-5)
    assert scores.per_query["MAP(rel=2)"]["ties"] == 0.5
    # gains 2 at rank 2 and 1 at rank 3, at best 2 at rank 1 and 1 at rank 2
    expected = (2 / 1.5849625 + 1 / 2) / (2 / 1 + 1 / 1.5849625)
    assert scores.per_query["nDCG@10"]["ties"] == pytest.approx(expected, abs=5e-5)
    assert scores.mean["R(rel=2)@1000"] == 0.4  # all of it for ties and graded, nothing to find for the rest
    assert scores.mean["P@2"] == pytest.approx((0.5 + 0 + 0 + 0.5 + 0.5) / 5)


def test_what_was_left_out_is_said() -> None:
    scores = evaluate(QRELS, RUN, ["MRR@10"])
    assert scores.missing == ("missing",)
    assert scores.unjudged == ("not-judged",)


def test_an_empty_run_scores_zero() -> None:
    scores = evaluate(QRELS, {}, MEASURES)
    assert scores.mean == dict.fromkeys(MEASURES, 0.0)
    assert scores.per_query["MAP"] == dict.fromkeys(QRELS, 0.0)
    assert scores.missing == tuple(QRELS)


def test_the_querys_own_document_is_ignored_on_request() -> None:
    qrels = {"q": {"d": 1}, "own": {"d": 1}}
    run = {"q": [("q", 9.0), ("d", 1.0)], "own": [("own", 1.0)]}
    assert evaluate(qrels, run, ["MRR@10"]).per_query["MRR@10"] == {"q": 0.5, "own": 0.0}
    without = evaluate(qrels, run, ["MRR@10"], remove_query=True)
    assert without.per_query["MRR@10"] == {"q": 1.0, "own": 0.0}
    assert without.missing == ("own",)


def test_no_digit_of_a_score_is_lost() -> None:
    assert evaluate({"q": {"a": 1}}, {"q": [("a", 2e-9), ("b", 1e-9)]}, ["MRR"]).mean == {"MRR": 1.0}


def test_ids_of_any_alphabet_in_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    qrels = {"größe": {"日本": 1}, "all": {"é": 1}, "-": {"-": 1, "--": 0}}
    run = {"größe": [("日本", 2.0)], "all": [("x", 2.0), ("é", 1.0)]}
    scores = evaluate(qrels, run, ["MRR@10"])
    assert scores.per_query["MRR@10"] == {"größe": 1.0, "all": 0.5, "-": 0.0}
    assert scores.mean["MRR@10"] == 0.5


def test_files_are_read_where_paths_are_given(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d1 1\n")
    (tmp_path / "run.txt").write_text("q1 Q0 d2 1 2.0 t\nq1 Q0 d1 2 1.0 t\n")
    assert evaluate(tmp_path / "qrels.txt", str(tmp_path / "run.txt"), ["MRR@10"]).mean == {"MRR@10": 0.25}
    (tmp_path / "run.txt").write_text("q1 Q0 d2 1 2.0 t\nq1 Q0 d1 2 high t\n")
    with pytest.raises(LearnedSparseError, match=r"run\.txt:2: "):
        evaluate(tmp_path / "qrels.txt", tmp_path / "run.txt", ["MRR@10"])


@pytest.mark.parametrize(
    ("qrels", "run", "measure", "message"),
    [
        ({}, {}, "MAP", "no query has a judgement"),
        ({"q": {}}, {}, "MAP", "no query has a judgement"),
        ({"q": {"d": 1}}, {}, "mAP", "did you mean 'MAP'?"),
        ({"q": {"d": 1}}, {"q": [("a b", 1.0)]}, "MAP", "'a b' is empty or has white space"),
        ({"q": {"d": 1}}, {"q": [("d", float("nan"))]}, "MAP", "scores must be finite"),
        ({"q": {"d": 1}}, {"q": [("d", 1.0), ("d", 2.0)]}, "MAP", "gave no result"),
    ],
)
def test_what_cannot_be_measured_is_an_error(qrels: Qrels, run: Run, measure: str, message: str) -> None:
    with pytest.raises(LearnedSparseError) as error:
        evaluate(qrels, run, [measure])
    assert message in str(error.value)


def test_pyserinis_own_command_prints_the_same_numbers(scores: Scores, tmp_path: Path) -> None:
    by_hand(tmp_path, "MAP", QRELS, RUN)
    command = [
        sys.executable,
        "-m",
        "learned_sparse.pyserini",
        "eval.measures.trec_eval",
        *parse_measure("R(rel=2)@2").arguments,
    ]
    answer = subprocess.run(
        [*command, tmp_path / "qrels", tmp_path / "run"], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["recall_2", "all", f"{scores.mean['R(rel=2)@2']:.4f}"]


names = st.sampled_from(["a", "B", "10", "9", "é", "aa"])
grades = st.dictionaries(names, st.integers(-1, 3), min_size=1, max_size=4)
hits = st.dictionaries(names, st.sampled_from([0.0, 0.5, 1.0, 16777216.0, 16777217.0, -1e-9]), max_size=6)


@settings(max_examples=10, deadline=None)
@given(
    qrels=st.dictionaries(st.sampled_from(["1", "2", "10", "x"]), grades, min_size=1),
    found=st.dictionaries(st.sampled_from(["1", "2", "10", "y"]), hits, min_size=1),
    measure=st.sampled_from(MEASURES),
)
def test_any_run_is_measured_as_trec_eval_does(
    qrels: dict[str, dict[str, int]],
    found: dict[str, dict[str, float]],
    measure: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run = {query: list(of.items()) for query, of in found.items()}
    scores = evaluate(qrels, run, [measure])
    if not any(run.get(query) for query in qrels):
        assert scores.mean == {measure: 0.0}
        return  # trec_eval itself gives up on such a run, and on a query that has negative grades only
    qrels = {query: of if max(of.values()) >= 0 else {**of, "filler": 0} for query, of in qrels.items()}
    expected = by_hand(tmp_path_factory.mktemp("by_hand"), measure, qrels, run)
    assert scores.mean == {measure: expected.pop("all")}
    assert scores.per_query == {measure: {query: expected.get(query, 0.0) for query in qrels}}
