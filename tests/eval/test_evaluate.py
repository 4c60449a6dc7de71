"""The command eval.evaluate: judgements, runs, tables, JSON and errors."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import scipy.stats

from eval.evaluate import main
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import run_file

QRELS = "q1 0 d1 1\nq2 0 d1 2\nq2 0 d2 1\nq3 0 d3 1\n"
FIRST = "q1 Q0 d1 1 2.0 t\nq2 Q0 d3 1 2.0 t\nq2 Q0 d2 2 1.0 t\nq9 Q0 d1 1 1.0 t\n"
SECOND = "q1 Q0 q1 1 9.0 t\nq1 Q0 d1 2 2.0 t\nq2 Q0 d1 1 2.0 t\nq3 Q0 d3 1 2.0 t\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory with judgements, two runs, and a collection with one split."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(tmp_path / "home"))
    files = {
        "qrels.txt": QRELS,
        "first.txt": FIRST,
        "second.txt": SECOND,
        "tiny/corpus.jsonl": "".join(f'{{"_id": "d{i}", "title": "", "text": "text"}}\n' for i in range(1, 4)),
        "tiny/queries.jsonl": "".join(f'{{"_id": "q{i}", "text": "text"}}\n' for i in range(1, 4)),
        "tiny/qrels/test.tsv": "query-id\tcorpus-id\tscore\n" + QRELS.replace(" 0 ", "\t").replace(" ", "\t"),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.jvm
def test_two_runs_side_by_side(
    workspace: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert main(["--qrels", "qrels.txt", "--measures", "MRR@10", "R(rel=2)@1", "--run", "first.txt", "second.txt"]) == 0
    assert capsys.readouterr().out == (
        "run     MRR@10  R(rel=2)@1\n"
        "------  ------  ----------\n"
        "first   0.5000      0.0000\n"
        "second  0.8333      0.3333\n"
        "\n"
        "differences, 95 % intervals, p-values of the paired t-test:\n"
        "\n"
        "second - first: MRR@10 +0.333 (-1.564 to +2.231), p 0.53, 2 of 3 queries higher\n"
        "second - first: R(rel=2)@1 +0.333 (-1.101 to +1.768), p 0.42, 1 of 3 queries higher\n"
    )  # fmt: skip
    assert caplog.messages == [
        "first.txt: 1 judged queries without a hit, scored zero (for instance 'q3')",
        "first.txt: 1 queries without a judgement, ignored (for instance 'q9')",
        "first.txt: at most 2 hits a query; less deep than MRR@10",
        "second.txt: at most 2 hits a query; less deep than MRR@10",
    ]


@pytest.mark.jvm
def test_differences_from_the_baseline_with_corrected_p_values(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten queries: ``half`` answers five of them, ``all`` nine, ``none`` nothing."""
    Path("qrels.txt").write_text("".join(f"q{i} 0 d 1\n" for i in range(10)))
    for name, answered in {"none": 0, "half": 5, "all": 9}.items():
        lines = [f"q{i} Q0 {'d' if i < answered else 'x'} 1 1.0 t\n" for i in range(10)]
        Path(f"{name}.txt").write_text("".join(lines))
    arguments = ["--qrels", "qrels.txt", "--measures", "P@1", "R@1", "--run", "none.txt", "half.txt", "all.txt"]
    main(arguments)
    shown = capsys.readouterr().out
    raw = [scipy.stats.ttest_1samp([1.0] * n + [0.0] * (10 - n), 0).pvalue for n in (5, 9)]  # Holm doubles the smaller
    assert f"half - none: P@1 +0.500 (+0.123 to +0.877), p {raw[0]:.2g}, 5 of 10 queries higher" in shown
    assert "all - none: R@1 +0.900 (+0.674 to +1.126), p < 0.001" in shown
    assert 2 * raw[1] < 0.001
    assert main([*arguments, "--baseline", "all", "--json"]) == 0
    compared = {(one["run"], one["measure"]): one for one in json.loads(capsys.readouterr().out)["comparisons"]}
    assert list(compared) == [("none", "P@1"), ("none", "R@1"), ("half", "P@1"), ("half", "R@1")]
    half = compared["half", "P@1"]
    assert (half["baseline"], half["difference"]) == ("all", pytest.approx(-0.4))
    assert half["p_value"] == pytest.approx(scipy.stats.ttest_1samp([-1.0] * 4 + [0.0] * 6, 0).pvalue)
    assert half["interval"] == pytest.approx(scipy.stats.t.interval(0.95, 9, -0.4, math.sqrt(0.24 / 9)))
    Path("qrels.txt").write_text("q0 0 d 1\n")
    main([*arguments, "--json"])
    assert {one["interval"] for one in json.loads(capsys.readouterr().out)["comparisons"]} == {None}


@pytest.mark.jvm
def test_the_values_of_queries_and_the_measures_that_are_deeper_than_the_run(
    workspace: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    arguments = "--qrels qrels.txt --measures MRR@2 MRR MAP R@1000 recall_500 --run second.txt --remove-query"
    assert main([*arguments.split(), "--json", "--per-query"]) == 0
    assert caplog.messages == ["second.txt: at most 2 hits a query; less deep than R@1000, recall_500"]
    content = json.loads(capsys.readouterr().out)
    assert content["remove_query"] is True
    (run,) = content["runs"]
    assert run["scores"]["MRR@2"] == 1.0
    assert run["per_query"]["MRR@2"] == {"q1": 1.0, "q2": 1.0, "q3": 1.0}


@pytest.mark.jvm
def test_a_collection_sets_judgements_measures_and_runs_in_the_home_folder(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for model, text in [("bm25", FIRST), ("splade", SECOND)]:
        path = run_file("tiny", "test", model)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert main(["--collection", "./tiny"]) == 0
    heading, _, *rows = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert heading.split()[:2] == ["run", "nDCG@10"]
    assert [row.split()[0] for row in rows] == ["bm25", "splade"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--run first.txt", "give --collection, or --qrels with --measures"),
        ("--qrels qrels.txt --measures MRR@10", "no runs; give --run"),
        ("--collection ./tiny", "tiny/test; give --run"),
        ("--collection ./tiny --run first.txt second.txt --baseline frist", "--baseline frist: no such run; did you"),
        ("--qrels qrels.txt --measures MAP --run first.txt --overlap", "--overlap needs --collection"),
    ],
)
def test_invalid_evaluate_arguments_are_errors(workspace: Path, arguments: str, message: str) -> None:
    with pytest.raises(LearnedSparseError) as error:
        main(arguments.split())
    assert message in str(error.value)
