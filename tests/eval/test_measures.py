"""Notation of measures; values equal trec_eval's with ties, missing queries, unjudged documents and grades."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.measures import Scores, evaluate, parse_measure
from learned_sparse.core.errors import LearnedSparseError

jvm = pytest.mark.jvm

MEASURES = [
    "MRR@2", "MRR", "R@1", "R@2", "R(rel=2)@2", "MAP", "MAP(rel=2)", "MAP@2", "nDCG@2", "nDCG@10", "P@5", "P(rel=2)@1",
    "Success@1", "Rprec", "MRR(rel=2)@2",
]  # fmt: skip
ALIASES = {
    "AP@100": "MAP@100", "RR(rel=2)@10": "MRR(rel=2)@10", "mrr@10": "MRR@10", "ndcg_cut.10": "nDCG@10",
    "ndcg_cut_10": "nDCG@10", "recall_100": "R@100", "P_10": "P@10", "success_5": "Success@5",
}  # fmt: skip

QRELS = {
    "ties": {"d1": 1, "d2": 2, "d3": 0},
    "missing": {"d1": 1},
    "hopeless": {"d9": 0},  # judged, but no document is relevant
    "graded": {"d3": 2, "d4": 1, "d5": 3},
    "negative": {"d1": -2, "d2": 1},
}
RUN = {
    "ties": [("d1", 1.5), ("d2", 1.5), ("d3", 1.5), ("d7", 1.0)],  # trec_eval orders them d3, d2, d1, d7
    "hopeless": [("d9", 3.0)],
    "graded": [("d4", 0.30000001), ("unjudged", 0.3), ("d5", 0.2), ("d3", -1e-7)],
    "negative": [("d1", 2.0), ("d2", 1.0)],
    "not-judged": [("d1", 1.0)],
}

Qrels = Mapping[str, Mapping[str, int]]
Run = Mapping[str, list[tuple[str, float]]]


def oracle(measure: str, qrels: Qrels, run: Run) -> dict[str, float]:
    """Values of one measure by query from pytrec_eval, an independent binding of trec_eval, at full precision."""
    parsed = parse_measure(measure)
    level = int(parsed.options[parsed.options.index("-l") + 1]) if "-l" in parsed.options else 1
    depth = int(parsed.options[parsed.options.index("-M") + 1]) if "-M" in parsed.options else None
    ranked = {  # 32-bit scores, then ids, both descending
        query: dict(sorted(hits, key=lambda hit: (np.float32(hit[1]), hit[0].encode()), reverse=True)[:depth])
        for query, hits in run.items()
        if hits
    }
    key = parsed.name.replace(".", "_")
    known = {query: {d: max(g, 0) for d, g in grades.items()} for query, grades in qrels.items()}
    found = pytrec_eval.RelevanceEvaluator(known, {parsed.name}, relevance_level=level).evaluate(ranked)
    return {query: found.get(query, {key: 0.0})[key] for query in qrels}


def test_other_spellings_are_the_same_measures() -> None:
    for text, measure in ALIASES.items():
        assert dataclasses.replace(parse_measure(text), text=measure) == parse_measure(measure)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NCDG@10", "'NCDG@10': unknown; did you mean 'nDCG'?"),
        ("ndcg_cut", "needs a cut-off; write nDCG@100"),
        ("Rprec@10", "takes no cut-off; write Rprec"),
        ("nDCG(rel=2)@10", "omit (rel=2)"),
        ("", "expected NAME, NAME@K"),
    ],
)
def test_unknown_measures_suggest_known_ones(text: str, message: str) -> None:
    with pytest.raises(LearnedSparseError) as error:
        parse_measure(text)
    assert message in str(error.value)


@pytest.fixture(scope="module")
def scores() -> Scores:
    """Scores of all measures together, so that measures share calls of trec_eval."""
    return evaluate(RUN, QRELS, MEASURES)


@jvm
@pytest.mark.parametrize("measure", MEASURES)
def test_means_and_queries_equal_those_of_pytrec_eval(measure: str, scores: Scores) -> None:
    assert list(scores.mean) == list(scores.per_query) == MEASURES
    expected = oracle(measure, QRELS, RUN)
    assert scores.per_query[measure] == pytest.approx(expected, abs=5.1e-5)
    assert scores.mean[measure] == pytest.approx(sum(expected.values()) / len(expected), abs=5.1e-5)
    assert (scores.missing, scores.unjudged) == (("missing",), ("not-judged",))


@jvm
def test_an_empty_run_scores_zero() -> None:
    scores = evaluate({}, QRELS, MEASURES)
    assert scores.mean == dict.fromkeys(MEASURES, 0.0)
    assert scores.per_query["MAP"] == dict.fromkeys(QRELS, 0.0)
    assert scores.missing == tuple(QRELS)


@jvm
def test_remove_query_ignores_the_document_with_the_id_of_the_query() -> None:
    qrels = {"q": {"d": 1}, "own": {"d": 1}}
    run = {"q": [("q", 9.0), ("d", 1.0)], "own": [("own", 1.0)]}
    assert evaluate(run, qrels, ["MRR@10"]).per_query["MRR@10"] == {"q": 0.5, "own": 0.0}
    removed = evaluate(run, qrels, ["MRR@10"], remove_query=True)
    assert removed.per_query["MRR@10"] == {"q": 1.0, "own": 0.0}
    assert removed.missing == ("own",)


@jvm
def test_ids_of_any_alphabet_and_every_digit_of_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    qrels = {"größe": {"日本": 1}, "all": {"é": 1}, "-": {"-": 1, "--": 0}, "digits": {"a": 1}}
    run = {"größe": [("日本", 2.0)], "all": [("x", 2.0), ("é", 1.0)], "digits": [("a", 2e-9), ("b", 1e-9)]}
    scores = evaluate(run, qrels, ["MRR@10"])
    assert scores.per_query["MRR@10"] == {"größe": 1.0, "all": 0.5, "-": 0.0, "digits": 1.0}
    assert scores.mean["MRR@10"] == 0.625


@jvm
def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text("q1 0 d1 1\nq2 0 d1 1\n")
    (tmp_path / "run.txt").write_text("q1 Q0 d2 1 2.0 t\nq1 Q0 d1 2 1.0 t\n")
    assert evaluate(str(tmp_path / "run.txt"), tmp_path / "qrels.txt", ["MRR@10"]).mean == {"MRR@10": 0.25}
    (tmp_path / "run.txt").write_text("q1 Q0 d2 1 2.0 t\nq1 Q0 d1 2 high t\n")
    with pytest.raises(LearnedSparseError, match=r"run\.txt:2: "):
        evaluate(tmp_path / "run.txt", tmp_path / "qrels.txt", ["MRR@10"])


@jvm
@pytest.mark.parametrize(
    ("run", "qrels", "measure", "message"),
    [
        ({}, {}, "MAP", "no query has a judgement"),
        ({}, {"q": {}}, "MAP", "no query has a judgement"),
        ({}, {"q": {"d": 1}}, "MPA", "did you mean 'MAP'?"),
        ({"q": [("a b", 1.0)]}, {"q": {"d": 1}}, "MAP", "'a b' is empty or has white space"),
        ({"q": [("d", float("nan"))]}, {"q": {"d": 1}}, "MAP", "scores must be finite"),
        ({"q": [("d", 1.0), ("d", 2.0)]}, {"q": {"d": 1}}, "MAP", "given twice"),
    ],
)
def test_runs_and_judgements_that_cannot_be_measured(run: Run, qrels: Qrels, measure: str, message: str) -> None:
    with pytest.raises(LearnedSparseError) as error:
        evaluate(run, qrels, [measure])
    assert message in str(error.value)


@jvm
def test_a_run_is_taken_as_other_tools_take_it() -> None:
    """Dicts of dicts, and never in the place of the judgements: the order of the field is the other one."""
    qrels = {"q1": {"d1": 1}, "ab": {"d2": 1}}
    run = {"q1": {"d9": 2.0, "d1": 1.0}, "ab": {"d2": 1.0, "ab": 3.0}}
    assert evaluate(run, qrels, ["MRR@10"], remove_query=True).per_query["MRR@10"] == {"q1": 0.5, "ab": 1.0}
    for first, second in ((qrels, run), ({}, {"q1": [("d1", 1.0)]})):
        with pytest.raises(LearnedSparseError, match="evaluate\\(run, qrels, measures\\)"):
            evaluate(first, second, ["MRR@10"])  # type: ignore[arg-type]
    assert evaluate({"q1": [("d1", 1)]}, {"q1": {"d1": np.int64(1)}}, ["MRR@10"]).mean == {"MRR@10": 1.0}  # type: ignore[dict-item]


def test_measuring_from_python_loads_no_model_code() -> None:
    program = "import sys; from eval import evaluate; print({'encoders', 'torch', 'safetensors'} & {*sys.modules})"
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"
    )


names = st.sampled_from(["a", "B", "10", "9", "é", "aa"])
grades = st.dictionaries(names, st.integers(-1, 3), min_size=1, max_size=4)
hits = st.dictionaries(names, st.sampled_from([0.0, 0.5, 1.0, 16777216.0, 16777217.0, -1e-9]), max_size=6)


@jvm
@settings(max_examples=100, deadline=None)
@given(
    qrels=st.dictionaries(st.sampled_from(["1", "2", "10", "x"]), grades, min_size=1),
    results=st.dictionaries(st.sampled_from(["1", "2", "10", "y"]), hits, min_size=1),
    measure=st.sampled_from(MEASURES),
)
def test_any_run_has_the_values_of_trec_eval(
    qrels: dict[str, dict[str, int]],
    results: dict[str, dict[str, float]],
    measure: str,
) -> None:
    run = {query: list(documents.items()) for query, documents in results.items()}
    scores = evaluate(run, qrels, [measure])
    expected = oracle(measure, qrels, run)
    assert scores.per_query[measure] == pytest.approx(expected, abs=5.1e-5)
    assert scores.mean[measure] == pytest.approx(sum(expected.values()) / len(expected), abs=5.1e-5)
