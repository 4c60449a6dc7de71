"""Our searcher on Lucene's classes: hit for hit what Pyserini's finds."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.lucene import ImpactSearcher, search_impacts, start_jvm
from learned_sparse.lucene.searchers import MAX_INT
from tests.learned_sparse.lucene.stock_searcher import impact_searcher

DRAW = random.Random(11)
ALPHABETS = ("d{}", "D{}", "é{}", "日本{}", "😀{}", "\uffff{}", "{}")
TERMS = ["all", "##ing", "|", "日本", "😀", *(f"t{number}" for number in range(40))]


def _vector(largest: int) -> dict[str, int]:
    return {"all": 1, **{term: DRAW.randint(1, largest) for term in DRAW.sample(TERMS[1:], DRAW.randint(0, 8))}}


VECTORS = {ALPHABETS[number % len(ALPHABETS)].format(number): _vector(3) for number in range(600)}
QUERIES: dict[str, dict[str, int]] = {
    **{f"q{n}": {t: DRAW.randint(1, 4) for t in DRAW.sample(TERMS, DRAW.randint(1, 12))} for n in range(25)},
    "one": {"all": 1},
    "seven": {"t1": 7, "nowhere": 3},
    "nothing": {"nowhere": 1, "gone": 2},
    "empty": {},
    "zero": {"t1": 0, "t2": 0},
    "large": {"t1": 100_000, "t2": 99_999, "##ing": 65_537},
    "wide": {**{f"none{number}": 1 for number in range(1_500)}, "t3": 2},
}


def write_index(folder: Path, vectors: Mapping[str, Mapping[str, int]], together: int) -> None:
    """An index by Lucene's own writer with a segment for every ``together`` documents, fields as Anserini's."""
    start_jvm()
    from jnius import autoclass

    place = "org.apache.lucene.document."
    directory = autoclass("org.apache.lucene.store.FSDirectory").open(autoclass("java.nio.file.Paths").get(str(folder)))
    config = autoclass("org.apache.lucene.index.IndexWriterConfig")(
        autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    )
    config.setSimilarity(autoclass("io.anserini.search.similarity.ImpactSimilarity")())
    config.setMergePolicy(autoclass("org.apache.lucene.index.NoMergePolicy").INSTANCE)
    writer = autoclass("org.apache.lucene.index.IndexWriter")(directory, config)
    yes, no = (getattr(autoclass(f"{place}Field$Store"), name) for name in ("YES", "NO"))
    for number, (name, vector) in enumerate(vectors.items(), start=1):
        document = autoclass(f"{place}Document")()
        document.add(autoclass(f"{place}StringField")("id", name, yes))
        key = autoclass("org.apache.lucene.util.BytesRef")(bytearray(name.encode()))
        document.add(autoclass(f"{place}BinaryDocValuesField")("id", key))
        text = " ".join(" ".join([term] * impact) for term, impact in vector.items())
        document.add(autoclass(f"{place}TextField")("contents", text, no))
        writer.addDocument(document)
        if number % together == 0:
            writer.commit()
    writer.close()


@pytest.fixture(scope="module", params=[10_000, 77], ids=["one segment", "many segments"])
def index(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("impacts")
    write_index(folder, VECTORS, request.param)
    return folder


@pytest.fixture(scope="module")
def stock(index: Path) -> Iterator[Any]:
    searcher = impact_searcher(index, QUERIES)
    yield searcher
    searcher.close()


@pytest.mark.jvm
@pytest.mark.parametrize("k", [1, 3, 50, 599, 600, 1_000])
def test_hits_are_those_of_pyserini(index: Path, stock: Any, k: int) -> None:
    names = list(QUERIES)
    expected = {name: [(h.docid, h.score) for h in hits] for name, hits in stock.batch_search(names, names, k).items()}
    with ImpactSearcher(index) as searcher:
        found = searcher.search_batch(QUERIES, k)
        assert list(found) == names
        for name in names:
            # Anserini lowers the scores of ties by steps of 0.000001.
            close = [(document, pytest.approx(score, abs=1e-3)) for document, score in expected[name]]
            assert found[name] == close
        assert searcher.search_batch(QUERIES, k, 2) == found
        assert searcher.search_batch(QUERIES, k, 3) == found
    assert any(len(hits) > 1 and hits[-1][1] == hits[0][1] for hits in found.values()) or k == 1


@pytest.mark.jvm
def test_scores_are_dot_products_and_ties_are_cut_by_id(index: Path) -> None:
    for name, query in QUERIES.items():
        if name == "zero":
            continue
        scores = {d: sum(w * query.get(t, 0) for t, w in vector.items()) for d, vector in VECTORS.items()}
        best = sorted(((d, float(score)) for d, score in scores.items() if score), key=lambda hit: (-hit[1], hit[0]))
        for k in (5, 1_000):
            assert search_impacts(index, {name: query}, k) == {name: best[:k]}
    assert len(search_impacts(index, {"one": {"all": 1}}, 20)["one"]) == 20


@pytest.mark.jvm
def test_exact_up_to_two_to_the_24(tmp_path: Path) -> None:
    """Stock Pyserini repeats each term of a query ``weight`` times first, and would not end."""
    write_index(tmp_path, {"a": {"x": 1, "y": 1}, "b": {"x": 1}, "c": {"y": 1}}, 10)
    for weights in ([2**24 - 1, 1], [2**23, 2**23 - 1]):
        query = dict(zip(("x", "y"), weights, strict=True))
        expected = sorted([("a", sum(weights)), ("b", weights[0]), ("c", weights[1])], key=lambda h: (-h[1], h[0]))
        assert search_impacts(tmp_path, {"q": query})["q"] == expected
    rounded = search_impacts(tmp_path, {"q": {"x": 2**24 + 1, "y": 2**31 - 1}})["q"]
    assert rounded == [("a", float(2**31 + 2**24)), ("c", float(2**31)), ("b", float(2**24))]


@pytest.mark.jvm
def test_what_cannot_be_searched(index: Path, tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=r"not a Lucene index .*learned_sparse.index"):
        ImpactSearcher(tmp_path / "gone")
    with ImpactSearcher(index) as searcher:
        for impact in (-1, 0.5, MAX_INT + 1):
            with pytest.raises(LearnedSparseError, match=r"'t1' has the impact .*not a whole number"):
                searcher.search({"t1": impact})  # type: ignore[dict-item]
        for k in (0, -1):
            with pytest.raises(LearnedSparseError, match=f"{k} hits: give 1"):
                searcher.search({"t1": 1}, k)
        with pytest.raises(LearnedSparseError, match="'t1' has the impact -2"):
            searcher.search_batch({"fine": {"t1": 1}, "not": {"t1": -2}}, threads=2)
    with pytest.raises(LearnedSparseError, match="Lucene cannot search it"):
        searcher.search({"t1": 1})  # closed


@pytest.mark.jvm
def test_documents_without_the_id_that_anserini_sorts_by(tmp_path: Path) -> None:
    start_jvm()
    from jnius import autoclass

    place = "org.apache.lucene.document."
    folder = autoclass("java.nio.file.Paths").get(str(tmp_path))
    config = autoclass("org.apache.lucene.index.IndexWriterConfig")()
    writer = autoclass("org.apache.lucene.index.IndexWriter")(
        autoclass("org.apache.lucene.store.FSDirectory").open(folder), config
    )
    document = autoclass(f"{place}Document")()
    document.add(autoclass(f"{place}TextField")("contents", "a", autoclass(f"{place}Field$Store").NO))
    writer.addDocument(document)
    writer.close()
    with ImpactSearcher(tmp_path) as searcher, pytest.raises(LearnedSparseError, match="Lucene cannot search it"):
        searcher.search({"a": 1})
