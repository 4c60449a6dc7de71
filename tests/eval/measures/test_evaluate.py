"""The command eval.evaluate: judgements, runs, tables, JSON and errors."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from eval.evaluate import main
from learned_sparse.core import LearnedSparseError, index_folder, run_file

QRELS = "q1 0 d1 1\nq2 0 d1 2\nq2 0 d2 1\nq3 0 d3 1\n"
FIRST = "q1 Q0 d1 1 2.0 t\nq2 Q0 d3 1 2.0 t\nq2 Q0 d2 2 1.0 t\nq9 Q0 d1 1 1.0 t\n"
SECOND = "q1 Q0 q1 1 9.0 t\nq1 Q0 d1 2 2.0 t\nq2 Q0 d1 1 2.0 t\nq3 Q0 d3 1 2.0 t\n"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory with judgements, two runs, a collection with one split, and encoded texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEARNED_SPARSE_HOME", str(tmp_path / "home"))
    files = {
        "qrels.txt": QRELS,
        "first.txt": FIRST,
        "second.txt": SECOND,
        "tiny/corpus.jsonl": "".join(f'{{"_id": "d{i}", "title": "", "text": "text"}}\n' for i in range(1, 4)),
        "tiny/queries.jsonl": "".join(f'{{"_id": "q{i}", "text": "text"}}\n' for i in range(1, 4)),
        "tiny/qrels/test.tsv": "query-id\tcorpus-id\tscore\n" + QRELS.replace(" 0 ", "\t").replace(" ", "\t"),
        "vectors/part-00000.jsonl": (
            '{"id": "d1", "contents": "", "vector": {"a": 2, "b": 1}}\n'
            '{"id": "d2", "contents": "", "vector": {"b": 3}}\n'
        ),
        "queries/queries.tsv": "q1\tb b c\nq2\ta a a\n",
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
    )  # fmt: skip
    assert caplog.messages == [
        "first.txt: 1 judged queries without a hit, scored zero (for instance 'q3')",
        "first.txt: 1 queries without a judgement, ignored (for instance 'q9')",
    ]


@pytest.mark.jvm
def test_sparsity_beside_the_measures(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "--qrels qrels.txt --measures MRR@10 --run second.txt --vectors vectors --queries queries --remove-query"
    )
    assert main([*arguments.split(), "--markdown"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "| second | 1.0000 | 0.7500 |            1.5 |         1.5 |"
    assert main([*arguments.split(), "--json", "--per-query"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["remove_query"] is True
    (run,) = content["runs"]
    assert run["scores"] == {"MRR@10": 1.0}
    assert run["per_query"] == {"MRR@10": {"q1": 1.0, "q2": 1.0, "q3": 1.0}}
    assert run["sparsity"]["flops"] == 0.75  # b is in both documents and one of two queries; a is in one of each


@pytest.mark.jvm
def test_a_collection_sets_judgements_measures_and_runs_in_the_home_folder(
    workspace: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    for model, text in [("bm25", FIRST), ("splade", SECOND)]:
        path = run_file("tiny", "test", model)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    note = index_folder("tiny", "splade") / "learned_sparse.json"
    note.parent.mkdir(parents=True)
    note.write_text("{}")
    os.utime(note, (2e9, 2e9))
    assert main(["--collection", "./tiny"]) == 0
    assert "splade.txt: older than the index" in caplog.text
    assert "bm25.txt: older" not in caplog.text
    heading, _, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[:2] == ["run", "nDCG@10"]
    assert [row.split()[0] for row in rows] == ["bm25", "splade"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--run first.txt", "give --collection, or --qrels with --measures"),
        ("--run first.txt --qrels qrels.txt", "give --collection, or --qrels with --measures"),
        ("--qrels qrels.txt --measures MRR@10", "no run: give --run"),
        ("--collection ./tiny", "tiny/test: no runs"),
        ("--collection ./tiny --split tset --run first.txt", "did you mean 'test'?"),
        ("--collection ./tiny --run absent.txt", "absent.txt: no such run"),
        ("--collection ./tiny --run first.txt --measures ndcg@10", "did you mean 'nDCG'?"),
        ("--qrels absent.txt --measures MAP --run first.txt", "absent.txt: no such file"),
        ("--qrels first.txt --measures MAP --run first.txt", "first.txt:1: "),
        ("--collection ./tiny --run first.txt second.txt --vectors vectors --queries queries", "of each per run"),
        ("--collection ./tiny --run first.txt --vectors vectors", "give both --vectors and --queries"),
        (
            "--collection ./tiny --run first.txt --vectors vectors --queries tiny",
            "not encoded queries (queries.tsv is missing)",
        ),
    ],
)
def test_invalid_evaluate_arguments_are_errors(workspace: Path, arguments: str, message: str) -> None:
    with pytest.raises(LearnedSparseError) as error:
        main(arguments.split())
    assert message in str(error.value)
