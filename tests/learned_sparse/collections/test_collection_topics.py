"""Queries of files: every format of topics that Pyserini reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.collections.topics import read_queries
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import EXPANDED, Query
from tests.learned_sparse.collections.written import IDS, write

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
        (
            "t.trec",
            "<top><num>2</num><title>Androgen receptor define</top><top><num>10<title>what is it?</title></top>",
        ),
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
        ("t.jsonl", '{"id": "1"}\n', ":1: no text under the keys 'text', 'title', 'query', 'contents'"),
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
