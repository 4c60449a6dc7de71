"""Searchers of impacts and of text: the hits of Pyserini, exact dot products, limits and errors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.collections.documents import Document
from learned_sparse.collections.topics import Query
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.index.build import build_bm25_index, build_index, delimited
from learned_sparse.lucene.searchers import MAX_INT, ImpactSearcher, search_bm25
from learned_sparse.lucene.writer import LuceneWriter
from tests.learned_sparse.encoded_folder import dot_products, write_folder
from tests.learned_sparse.lucene.stock_searcher import impact_searcher

pytestmark = pytest.mark.jvm
DRAW = random.Random(11)
ID_FORMATS = ("d{}", "D{}", "é{}", "日本{}", "😀{}", "\uffff{}", "{}")
TERMS = ["all", "##ing", "|", "日本", "😀", *(f"t{number}" for number in range(40))]


def _vector(max_impact: int) -> dict[str, int]:
    return {"all": 1, **{term: DRAW.randint(1, max_impact) for term in DRAW.sample(TERMS[1:], DRAW.randint(0, 8))}}


VECTORS = {ID_FORMATS[number % len(ID_FORMATS)].format(number): _vector(3) for number in range(600)}
QUERIES: dict[str, dict[str, int]] = {
    **{f"q{n}": {t: DRAW.randint(1, 4) for t in DRAW.sample(TERMS, DRAW.randint(1, 12))} for n in range(25)},
    "one term": {"all": 1},
    "one known term": {"t1": 7, "nowhere": 3},
    "no known term": {"nowhere": 1, "gone": 2},
    "no term": {},
    "large impacts": {"t1": 100_000, "t2": 99_999, "##ing": 65_537},
    "1,501 terms": {**{f"none{number}": 1 for number in range(1_500)}, "t3": 2},
}


@pytest.fixture(scope="module", params=["one segment", "many segments"])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("impacts")
    if request.param == "one segment":
        build_index(write_folder(folder / "vectors", VECTORS), folder / "index")
        return folder / "index"
    writer, names = LuceneWriter(folder, impact=True), list(VECTORS)
    for start in range(0, len(names), 77):
        chunk = names[start : start + 77]
        writer.add(chunk, [delimited(VECTORS[name]) for name in chunk])
        writer._writer.commit()
    writer._writer.close()
    with ImpactSearcher(folder) as searcher:
        assert len(searcher.leaves) == 8
    return folder


@pytest.fixture(scope="module")
def stock(index: Path) -> Iterator[Any]:
    searcher = impact_searcher(index, QUERIES)
    yield searcher
    searcher.close()


@pytest.mark.parametrize("k", [1, 50, 599, 1_000])
def test_hits_equal_pyserinis(index: Path, stock: Any, k: int) -> None:
    names = list(QUERIES)
    expected = {name: [(h.docid, h.score) for h in hits] for name, hits in stock.batch_search(names, names, k).items()}
    with ImpactSearcher(index) as searcher:
        results = searcher.search_batch(QUERIES, k)
        assert list(results) == names
        for name in names:
            # Anserini lowers the scores of ties by steps of 0.000001.
            close: list[Any] = [(document, pytest.approx(score, abs=1e-3)) for document, score in expected[name]]
            assert results[name] == close
        assert searcher.search_batch(QUERIES, k, threads=3) == results
    assert any(len(hits) > 1 and hits[-1][1] == hits[0][1] for hits in results.values()) or k == 1


def test_scores_are_dot_products_and_ties_are_cut_by_id(index: Path) -> None:
    with ImpactSearcher(str(index)) as searcher:
        for query in QUERIES.values():
            best = dot_products(query, VECTORS)
            assert [searcher.search(query, k) for k in (5, 1_000)] == [best[:5], best]
            assert [searcher.score(query, document) for document, _ in best[:3]] == [score for _, score in best[:3]]
        assert searcher.search({"t1": 0, "t2": 0}) == []  # as the exact searcher
        assert searcher.search({"t1": 0, "t2": 3}) == searcher.search({"t2": 3}) != []
        assert searcher.score({"all": 3}, "no such document") == searcher.score({"nowhere": 3}, "d0") == 0


def test_errors(index: Path, tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=r"not a Lucene index .*learned_sparse.index"):
        ImpactSearcher(tmp_path / "gone")
    with pytest.raises(LearnedSparseError, match="--k1 takes 0 or more, --b a number from 0 to 1"):
        ImpactSearcher(index, "bm25", k1=-1)
    with ImpactSearcher(index) as searcher:
        for impact in (-1, 0.5, float("nan"), MAX_INT + 1):
            with pytest.raises(LearnedSparseError, match=r"'t1' has the impact .*not a whole number"):
                searcher.search({"t1": impact})  # type: ignore[dict-item]
        with pytest.raises(LearnedSparseError, match=r"search\(queries\.encode\('hives on skin'\)"):
            searcher.search("hives on skin")
        for k in (0, -1):
            with pytest.raises(LearnedSparseError, match=f"{k} hits: give 1"):
                searcher.search({"t1": 1}, k)
        with pytest.raises(LearnedSparseError, match="'t1' has the impact -2"):
            searcher.search_batch({"valid": {"t1": 1}, "invalid": {"t1": -2}}, threads=2)
    with pytest.raises(LearnedSparseError, match="Lucene cannot search it"):
        searcher.search({"t1": 1})  # closed


def test_text_of_many_words(tmp_path: Path) -> None:
    """Words without white space between them are also terms; by default Lucene rejects more than 1,024."""
    build_bm25_index([Document("d1", "hives"), Document("d2", "rash")], tmp_path / "index", threads=1)
    from jnius import autoclass

    autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(1_024)  # as in a new JVM
    queries = [Query("q", ";".join(f"w{number}" for number in range(9_000)) + ";rash"), Query("none", "..")]
    hits = search_bm25(tmp_path / "index", queries)
    assert [document for document, _ in hits["q"]] == ["d2"]
    assert hits["none"] == []
