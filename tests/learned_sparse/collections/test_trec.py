"""Judgements and runs: formats, errors, and the order of written runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.trec import ranked, read_qrels, read_run, write_run
from learned_sparse.core.errors import LearnedSparseError
from tests.learned_sparse.collections.written import IDS, write

SCORES = st.one_of(st.integers(-(10**6), 10**6).map(float), st.floats(-1000, 1000).map(lambda score: round(score, 6)))
RUNS = st.dictionaries(IDS, st.dictionaries(IDS, SCORES, min_size=1, max_size=6), max_size=4)


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 d1 1\nq1 0 d2 0\nq2 Q0 d1 -2\n",
        "q1\t0\td1\t1\nq1\t0\td2\t0\nq2\t0\td1\t-2\n",
        "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\td1\t-2\n",
        "q1\td1\t1\nq1\td2\t0\nq2\td1\t-2",
        "\ufeffq1 0 d1 1\r\n\r\nq1 0 d2 0\r\nq2 0 d1 -2\r\nq2 0 d1 -2\r\n",
    ],
    ids=["trec", "msmarco", "beir", "beir without header", "byte order mark, CRLF, a blank line, a repetition"],
)
def test_every_format_of_judgements_gives_the_same(tmp_path: Path, text: str) -> None:
    expected = {"q1": {"d1": 1, "d2": 0}, "q2": {"d1": -2}}
    assert read_qrels(write(tmp_path / "qrels.tsv", text)) == expected
    assert read_qrels(write(tmp_path / "qrels.tsv.gz", text)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 0 d1 1\nq1 d1\n", ":2: 2 columns; expected query, iteration"),
        ("q1 0 d1 1\nq1 0 d2 1.5\n", ":2: the grade '1.5' is not an integer"),
        ("q1 0 d1 1\nq1 0 d1 2\n", ":2: query 'q1', document 'd1' was judged 1 before, 2 here"),
        (b"q1 0 d1 1\nq1 0 \xe9 1\n", ":2: not UTF-8 (byte 0xe9 at column 6; convert"),
        ("", ": no judgements"),
        ("query-id\tcorpus-id\tscore\n", ": no judgements"),
    ],
)
def test_bad_judgements_name_file_line_and_reason(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = write(tmp_path / "qrels.tsv", text)
    with pytest.raises(LearnedSparseError) as error:
        read_qrels(path)
    assert f"{path}{message}" in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1 Q0 d1 1 nan t\n", ":1: the score 'nan' is not a finite number"),
        ("q1 Q0 d1 1 2.0 t\nq1 Q0 d1 2 1.0 t\n", ":2: document 'd1' appears twice for query 'q1'"),
    ],
)
def test_bad_runs_name_file_line_and_reason(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "run", text)
    with pytest.raises(LearnedSparseError) as error:
        read_run(path)
    assert f"{path}{message}" in str(error.value)


HITS = {"q2": [("d1", 1.0)], "q1": [("d2", 0.5000001), ("d1", 0.5), ("d3", 7.25), ("d0", -1e-9), ("d4", 0.0)]}


def test_the_order_of_a_written_run_does_not_depend_on_the_order_of_ties(tmp_path: Path) -> None:
    write_run(tmp_path / "run", HITS, "ours")
    assert (tmp_path / "run").read_text() == (
        "q2 Q0 d1 1 1.000000 ours\n"
        "q1 Q0 d3 1 7.250000 ours\n"
        "q1 Q0 d1 2 0.500000 ours\n"
        "q1 Q0 d2 3 0.499999 ours\n"
        "q1 Q0 d0 4 0.000000 ours\n"
        "q1 Q0 d4 5 -0.000001 ours\n"
    )
    backwards = ((query, hits[::-1]) for query, hits in HITS.items())  # one query at a time
    write_run(tmp_path / "again", backwards, "ours")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "run").read_bytes()


def test_a_run_in_the_three_columns_of_msmarco(tmp_path: Path) -> None:
    write_run(tmp_path / "run", HITS, output_format="msmarco")
    assert (tmp_path / "run").read_text() == "q2\td1\t1\nq1\td3\t1\nq1\td1\t2\nq1\td2\t3\nq1\td0\t4\nq1\td4\t5\n"
    with pytest.raises(LearnedSparseError, match="output format 'json': use 'trec' or 'msmarco'"):
        write_run(tmp_path / "other", HITS, output_format="json")  # type: ignore[arg-type]
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("run", "tag", "message"),
    [
        ({"q 1": [("d1", 1.0)]}, "t", "the query id 'q 1' is empty or has white space"),
        ({"q1": [("", 1.0), ("a b", 0.5)]}, "t", "the document id '' is empty"),
        ({"q1": [("d\t1", 1.0)]}, "t", "the document id"),
        ({"q1": [("d1", 1.0)]}, "my tag", "the tag 'my tag'"),
        ({"q1": [("d1", float("inf"))]}, "t", "a score of query 'q1' is not finite"),
        ({"q1": [("d1", 1.0), ("d1", 0.5)]}, "t", "document 'd1' is given twice"),
    ],
)
def test_invalid_ids_scores_and_tags_are_errors_and_leave_no_file(
    tmp_path: Path, run: dict[str, list[tuple[str, float]]], tag: str, message: str
) -> None:
    with pytest.raises(LearnedSparseError) as error:
        write_run(tmp_path / "run", {"q0": [("d0", 1.0)], **run}, tag)
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


@given(run=RUNS)
def test_a_written_run_is_read_back_in_order(
    run: dict[str, dict[str, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("run") / "run"
    write_run(path, {query: list(documents.items()) for query, documents in run.items()})
    read = read_run(path)
    assert read.keys() == run.keys()
    for query, documents in run.items():
        expected = ranked(documents.items())
        assert [name for name, _ in read[query]] == [name for name, _ in expected]
        assert [score for _, score in read[query]] == pytest.approx([score for _, score in expected], abs=1e-4)


@pytest.mark.jvm
def test_trec_eval_keeps_the_order_of_tied_hits(tmp_path: Path) -> None:
    from eval import evaluate

    write_run(tmp_path / "run", {"q1": [("a", 2.0), ("b", 2.0), ("c", 2.0)]})
    reciprocal_rank = evaluate(tmp_path / "run", {"q1": {"a": 1}}, ["MRR@10"]).mean["MRR@10"]
    assert reciprocal_rank == 1.0
