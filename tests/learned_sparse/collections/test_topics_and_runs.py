"""Queries, judgements and runs in files: every format, errors, and the order of written runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.topics import Query, read_queries
from learned_sparse.collections.trec import ranked, read_qrels, read_run, write_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import EXPANDED
from tests.learned_sparse.input_files import IDS, write

ANY = st.characters(exclude_characters=f"\t\n\r{EXPANDED}", exclude_categories=["Cs"])
TEXTS = st.text(ANY, min_size=1, max_size=40).map(str.strip)

ROBUST04 = """
<top>

<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate in
international criminal activity.

<narr> Narrative: none

</top>
<top>
<num> Number: 302
<title>
Poliomyelitis and
Post-Polio
<desc> Description: none
</top>
"""
COVID = """<topics task="COVIDSearch" batch="5">
  <topic number="1">
    <query>coronavirus origin</query>
    <question>what is the origin of COVID-19</question>
  </topic>

  <topic number="2">
    <query>coronavirus &amp;
      weather</query>
  </topic>
</topics>
"""
WEB = """<?xml version="1.0" encoding="UTF-8"?>
<topics><topic number="51" type="faceted"><title>horse <b>hooves</b></title></topic></topics>
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.tsv", "2\t Androgen receptor define\n10\twhat is it? \n"),
        ("t.txt", "2\tAndrogen receptor define\r\n\r\n10\twhat is it?\r\n"),
        ("t.jsonl", '{"_id": "2", "text": "Androgen receptor define"}\n{"_id": "10", "text": "what is it?"}\n'),
        ("t.jsonl", '{"id": 2, "title": "Androgen receptor define"}\n{"qid": 10, "query": "what is it?"}\n'),
        ("t.json", '{\n  "2": {"title": "Androgen receptor define"},\n  "10": "what is it?"\n}\n'),
        ("t.trec", "<top><num>2<title>Androgen receptor define</title></top><top><num>10<title>what is it?</top>"),
    ],
)
def test_every_format_gives_the_same(tmp_path: Path, name: str, text: str) -> None:
    expected = [Query("2", "Androgen receptor define"), Query("10", "what is it?")]
    assert read_queries(write(tmp_path / name, text)) == expected
    assert read_queries(write(tmp_path / f"{name}.gz", text)) == expected


@pytest.mark.parametrize("name", ["topics.trec", "topics.txt", "topics.robust04", "topics.txt.gz"])
def test_classic_trec_topics_with_any_extension(tmp_path: Path, name: str) -> None:
    assert read_queries(write(tmp_path / name, ROBUST04)) == [
        Query("301", "International Organized Crime"),
        Query("302", "Poliomyelitis and Post-Polio"),
    ]


@pytest.mark.parametrize("name", ["topics-rnd5.xml", "topics.txt.gz"])
def test_xml_topics_with_any_extension(tmp_path: Path, name: str) -> None:
    """TREC-COVID's ``<query>``, and a ``<title>``."""
    expected = [Query("1", "coronavirus origin"), Query("2", "coronavirus & weather")]
    assert read_queries(write(tmp_path / name, COVID)) == expected
    assert read_queries(write(tmp_path / name, WEB)) == [Query("51", "horse hooves")]


def test_the_id_of_a_trec_car_topic_is_its_text(tmp_path: Path) -> None:
    path = write(tmp_path / "t.txt", "enwiki:Aftertaste\nenwiki:Aftertaste/Aftertaste%20processing+a\n")
    assert read_queries(path) == [
        Query("enwiki:Aftertaste", "Aftertaste"),
        Query("enwiki:Aftertaste/Aftertaste%20processing+a", "Aftertaste/Aftertaste processing a"),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.tsv", "1\t \n"),
        ("t.jsonl", '{"id": "1", "text": ""}\n'),
        ("t.json", '{"1": ""}\n'),
        ("t.trec", "<top>\n<num> 1\n<title>\n</top>\n"),
        ("t.xml", "<top lang='en'>\n<num>1</num>\n<title></title><desc>no query</desc></top>\n"),
    ],
)
def test_a_query_without_text_is_kept(tmp_path: Path, name: str, text: str) -> None:
    assert read_queries(write(tmp_path / name, text)) == [Query("1", "")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.xml", "<topics>\n<topic number='1'>\n</topics>", ":1: malformed XML (mismatched tag: line 3"),
        ("t.xml", "<topics><topic number='1'><text>a</text></topic></topics>", ":1: topic '1' has neither <query> nor"),
        ("t.tsv", "1\tone\n2 two\n", ":2: 1 columns; expected an id, a tab and the query's text"),
        ("t.tsv", "1\tone\n1\ttwo\n", ":2: query '1' was given before"),
        ("t.tsv", b"1\tone\n2\tcaf\xe9\n", ":2: not UTF-8 (byte 0xe9 at column 6; convert"),
        ("t.jsonl", '{"id": "1", "text": "one"}\n{"id": "2"\n', ":2: malformed JSON"),
        ("t.jsonl", '{"id": "1"}\n', ":1: query '1': no text under the keys 'text', 'title', 'query', 'contents'"),
        ("t.json", '{"1": {"description": "one"}}', ":1: query '1': no text under the keys"),
        ("t.trec", "<top>\n<num> 1\n</top>\n", ":1: the topic has no <title>"),
        ("t.trec", "<top>\n<num> 1\n<title> one\n</top>\n<top>\n<num> 2\n", ":5: <top> and </top> do not"),
    ],
)
def test_errors_name_file_line_and_reason(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(LearnedSparseError) as error:
        read_queries(path)
    assert str(error.value).startswith(f"{path}{message}")


ONE_LINE = TEXTS.filter(lambda text: len(text.splitlines()) == 1)


@given(queries=st.dictionaries(IDS, ONE_LINE, min_size=1))
def test_any_text_is_read_back_unchanged(queries: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("topics")
    expected = [Query(name, text) for name, text in queries.items()]
    lines = "".join(json.dumps({"_id": name, "text": f" {text}\n"}) + "\n" for name, text in queries.items())
    assert read_queries(write(folder / "t.jsonl", lines)) == expected
    if not any(name.startswith("<top") for name in queries):
        assert read_queries(write(folder / "t.tsv", "".join(f"{q}\t{t}\n" for q, t in queries.items()))) == expected


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
    ("read", "text", "message"),
    [
        (read_qrels, "q1 0 d1 1\nq1 d1\n", ":2: 2 columns; expected query, iteration"),
        (read_qrels, "q1 0 d1 1\nq1 0 d2 1.5\n", ":2: the grade '1.5' is not an integer"),
        (read_qrels, "q1 0 d1 1\nq1 0 d1 2\n", ":2: query 'q1', document 'd1' was judged 1 before, 2 here"),
        (read_qrels, b"q1 0 d1 1\nq1 0 \xe9 1\n", ":2: not UTF-8 (byte 0xe9 at column 6; convert"),
        (read_qrels, "", ": no judgements"),
        (read_qrels, "query-id\tcorpus-id\tscore\n", ": no judgements"),
        (read_run, "q1 Q0 d1 1 nan t\n", ":1: the score 'nan' is not a finite number"),
        (read_run, "q1 Q0 d1 1 2.0 t\nq1 Q0 d1 2 1.0 t\n", ":2: document 'd1' appears twice for query 'q1'"),
    ],
)
def test_bad_lines_name_file_line_and_reason(
    tmp_path: Path, read: Callable[[Path], object], text: str | bytes, message: str
) -> None:
    path = write(tmp_path / "lines.txt", text)
    with pytest.raises(LearnedSparseError) as error:
        read(path)
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
