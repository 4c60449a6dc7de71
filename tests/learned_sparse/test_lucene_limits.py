"""What stock Pyserini would spend or refuse: a table of all terms, and queries of many terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from learned_sparse import pyserini
from learned_sparse.collections.trec import read_run
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import Document, Query
from learned_sparse.index import build_bm25_index
from learned_sparse.index.vectors import build_index, encoded_files
from learned_sparse.lucene import stock as lucene
from tests.learned_sparse.encoded_folder import write_folder

WIDE = {f"w{number}": 1 for number in range(5_000)}
VECTORS: dict[str, dict[str, int]] = {"d1": {"all": 1, "hives": 2}, "d2": {"all": 3}, "wide": {"all": 1, **WIDE}}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    build_index(encoded_files([write_folder(folder / "encoded", VECTORS)]), folder / "index")
    return folder / "index"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The indexes that a table of terms is made of."""
    from learned_sparse.lucene.java import start_jvm

    start_jvm()
    from pyserini.search.lucene import LuceneImpactSearcher

    made: list[str] = []
    stock = LuceneImpactSearcher._compute_idf

    def remember(place: str) -> Any:
        made.append(place)
        return stock(place)

    monkeypatch.setattr(LuceneImpactSearcher, "_compute_idf", staticmethod(remember))
    return made


@pytest.mark.jvm
def test_our_searcher_makes_no_table_of_terms(index: Path, tables: list[str]) -> None:
    queries = {"q1": {"all": 1, "hives": 1, "gone": 5}, "q2": {"gone": 1}}
    assert lucene.search_impacts(index, queries) == {"q1": [("d1", 3.0), ("d2", 3.0), ("wide", 1.0)], "q2": []}
    assert tables == []


@pytest.mark.jvm
def test_the_launcher_makes_none_either(index: Path, tmp_path: Path, tables: list[str]) -> None:
    (tmp_path / "topics.tsv").write_text("1\thives\n")
    (tmp_path / "queries.jsonl").write_text('{"contents": "hives", "vector": {"hives": 3, "all": 1}}\n')
    arguments = ["--impact", "--index", str(index), "--topics", str(tmp_path / "topics.tsv")]
    arguments += ["--encoder", str(tmp_path / "queries.jsonl"), "--output", str(tmp_path / "run")]
    assert pyserini.run("search.lucene", [*arguments, "--min-idf", "-1"]) == 0
    assert read_run(tmp_path / "run") == {"1": [("d1", 7.0), ("d2", 3.0), ("wide", pytest.approx(1.0))]}
    assert tables == []
    assert pyserini.run("search.lucene", arguments) == 0
    assert tables == [str(index)]


@pytest.mark.jvm
def test_plain_text_of_many_words(tmp_path: Path) -> None:
    """Many words without white space between them are many terms too."""
    build_bm25_index([Document("d1", "hives"), Document("d2", "rash")], tmp_path / "index")
    from jnius import autoclass

    autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(1_024)  # as in a new JVM
    queries = [Query("q", ";".join(f"w{number}" for number in range(9_000)) + ";rash")]
    found = lucene.search_bm25(tmp_path / "index", queries)
    assert [document for document, _ in found["q"]] == ["d2"]


@pytest.mark.jvm
def test_a_limit_that_cannot_be_raised_is_an_error_that_says_so() -> None:
    with pytest.raises(LearnedSparseError, match=r"3,000,000,000 terms and Lucene takes .*top_k"):
        lucene.allow_clauses(3_000_000_000)


@pytest.mark.parametrize(
    ("arguments", "every"),
    [
        ([], False),
        (["--min-idf", "-1"], True),
        (["--min-idf=-1", "--hits", "3"], True),
        (["--min-idf", "0"], False),
        (["--min-idf", "-1", "--min-idf", "2"], False),
    ],
)
def test_which_options_keep_every_term(arguments: list[str], every: bool) -> None:
    assert lucene._keeps_every_term(arguments) is every
