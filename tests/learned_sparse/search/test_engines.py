"""The exact searcher equals a double loop; PISA has its scores, from PyTerrier too, Seismic those of what it finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import EMPTY_TERM, NO_TERMS
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.search.engines import PisaSearcher, SeismicSearcher, load_backend
from learned_sparse.search.exact_searcher import ExactSearcher
from learned_sparse.search.pyterrier import document_transformer, query_transformer
from learned_sparse.search.query_encoder import QueryEncoder
from tests.learned_sparse.encoded_folder import WordCounts, dot_products, write_folder
from tests.learned_sparse.export.collection import QUERIES, VECTORS

MORE_QUERIES: dict[str, dict[str, int]] = {**QUERIES, "capital": {"[CLS]": 1}, "tied": {"t1": 0, "t2": 0}}
MORE_QUERIES["long"] = {"x" * 100: 1, "x" * 101: 9}
MORE_VECTORS = {**VECTORS, "long": {"x" * 100: 1}}
MODULES = {"pisa": "pyterrier_pisa", "seismic": "seismic"}


@pytest.fixture(scope="module", params=MODULES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any]:
    """The name and the searcher of an engine."""
    pytest.importorskip(MODULES[request.param], reason=f"the extra {request.param} is not installed")
    return request.param, load_backend(request.param, [write_folder(tmp_path_factory.mktemp("in"), MORE_VECTORS)])


@pytest.mark.parametrize("threads", [1, 2])
def test_scores_are_exact(engine: tuple[str, Any], threads: int, capfd: pytest.CaptureFixture[str]) -> None:
    name, searcher = engine
    for k in (10, 1000):
        results = searcher.search_batch(MORE_QUERIES, k, threads)
        assert list(results) == list(MORE_QUERIES)
        assert results["none"] == []
        for query, hits in results.items():
            expected = dot_products(MORE_QUERIES[query], MORE_VECTORS)
            assert set(hits) <= set(expected)
            assert hits == sorted(hits, key=lambda hit: (-hit[1], hit[0]))
            if name == "pisa":  # Seismic is approximate; at rank k, PISA may have another document of the same score
                assert [score for _, score in hits] == [score for _, score in expected[:k]]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "vector", "query", "message"),
    [
        ("seismic", {"a": 2049}, {}, "encode with --bits 11"),
        ("seismic", {"x" * 101: 1}, {}, "more than 100 characters"),
        ("pisa", {}, {}, "without any impact"),
        ("pisa", {"a": 1}, {"a": 2**31 - 1, "b": 1}, "query 'q': its impacts add up to 2,147,483,648, and PISA takes"),
    ],
)
def test_what_an_engine_cannot_hold_is_refused(
    name: str, vector: dict[str, int], query: dict[str, int], message: str, tmp_path: Path
) -> None:
    pytest.importorskip(MODULES[name], reason=f"the extra {name} is not installed")
    with pytest.raises(LearnedSparseError, match=message):
        load_backend(name, [write_folder(tmp_path, {"d1": vector})]).search_batch({"q": query})


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("importlib.import_module", missing)
    for searcher, extra in ((PisaSearcher, "pisa"), (SeismicSearcher, "seismic")):
        with pytest.raises(LearnedSparseError, match=rf"pip install 'learned-sparse\[{extra}\]'"):
            searcher(["d1"], SparseBatch.from_dicts([{"a": 1}], dtype="int32"))


TEXTS = {"d1": "hives are a rash rash rash", "d2": "a wing and a rash", "d3": "", "d4": "lift and drag"}
TEXT_QUERIES = {"q1": "rash of hives", "q2": "a a wing"}


def test_transformers_of_pyterrier(tmp_path: Path) -> None:
    pandas: Any = pytest.importorskip("pandas")
    pytest.importorskip("pyterrier", reason="needs the extra pyterrier")
    documents = pandas.DataFrame(TEXTS.items(), columns=["docno", "text"])
    queries = pandas.DataFrame(TEXT_QUERIES.items(), columns=["qid", "query"])
    encode_documents = document_transformer(WordCounts(), Quantizer(10))
    encode_queries = query_transformer(QueryEncoder(WordCounts(), Quantizer(1)))
    encoded = encode_documents(documents)
    vectors = dict(zip(encoded["docno"], encoded["toks"], strict=True))
    assert vectors["d1"] == {"hives": 10, "are": 10, "a": 10, "rash": 30}
    assert vectors["d3"] == {}
    weighted = dict(zip(encode_queries(queries)["qid"], encode_queries(queries)["query_toks"], strict=True))
    assert weighted == {"q1": {"rash": 1, "of": 1, "hives": 1}, "q2": {"a": 2, "wing": 1}}
    with pytest.raises(LearnedSparseError, match="stores no quantiser for documents; give one"):
        document_transformer(WordCounts())
    pisa: Any = pytest.importorskip("pyterrier_pisa", reason="needs pyterrier-pisa")
    index = pisa.PisaIndex(str(tmp_path / "index"), stemmer="none")
    (encode_documents >> index.toks_indexer(scale=1)).index(documents.to_dict("records"))
    run = (encode_queries >> index.quantized(toks_scale=1, num_results=10))(queries)
    exact = ExactSearcher.from_vectors(vectors.items())
    for name, query in weighted.items():
        rows = run[run["qid"] == name]
        hits = dict(zip(rows["docno"], rows["score"], strict=True))
        assert {document: score for document, score in hits.items() if score} == dict(exact.search(query))


impacts = st.integers(1, 3) | st.sampled_from([255, 256, 65_535, 65_536, 2**31 - 1])
vectors = st.dictionaries(st.sampled_from("abcdefgh"), impacts, max_size=5)
queries = st.dictionaries(st.sampled_from("abcdefghxyz"), st.integers(0, 3), max_size=5)
collections = st.dictionaries(st.text(st.sampled_from("0123é😀"), min_size=1, max_size=3), vectors, max_size=30)
FEW_VECTORS = {"d3": {"a": 2}, "d1": {"a": 1, "b": 2}, "d2": {}, "d10": {"c": 300}, "d4": {"b": 1}}


@given(collections, st.lists(queries, max_size=3), st.integers(0, 40), st.sampled_from([1, 2, 4]))
def test_equals_a_double_loop(
    documents: dict[str, dict[str, int]], rows: list[dict[str, int]], k: int, threads: int
) -> None:
    searcher = ExactSearcher.from_vectors(documents.items())
    named = {f"q{number}": query for number, query in enumerate(rows)}
    expected = {name: dot_products(query, documents)[:k] for name, query in named.items()}
    hits = searcher.search_batch(named, k, threads)
    assert hits == expected
    assert list(hits) == list(named)


def test_large_scores_are_exact() -> None:
    searcher = ExactSearcher.from_vectors([("d1", {"a": 2**31 - 1, "b": 1}), ("d2", {"a": 2**31 - 1})])
    assert searcher.search({"a": 2**30, "b": 1}) == [("d1", (2**31 - 1) * 2**30 + 1), ("d2", (2**31 - 1) * 2**30)]
    with pytest.raises(LearnedSparseError, match="64 bits"):
        searcher.search({"a": 2**31, "b": 2**31, "c": 2**31})
    assert searcher.search({"c": 2**32}) == []


@pytest.mark.parametrize("impact", [-1, 0.5, True, np.float32(1)])
def test_query_impacts_are_integers(impact: int) -> None:
    searcher = ExactSearcher.from_vectors([("d1", {"a": 1})])
    for threads in (1, 2):
        with pytest.raises(LearnedSparseError, match=r"search\(queries\.encode\('a b'\)"):
            searcher.search_batch({"q1": "a b"}, threads=threads)  # type: ignore[dict-item]
        with pytest.raises(LearnedSparseError, match="query term 'a' has the impact"):
            searcher.search_batch({"q1": {"a": 1}, "q2": {"a": impact}}, threads=threads)


def test_empty_vectors_and_reserved_terms_match_nothing() -> None:
    searcher = ExactSearcher.from_vectors(
        [("d1", {}), ("d2", {"a": 2}), ("d3", {EMPTY_TERM: 1}), ("d4", {NO_TERMS: 1})]
    )
    assert searcher.search({EMPTY_TERM: 1, NO_TERMS: 1, "a": 1, "zero": 0}) == [("d2", 2)]
    assert searcher.search({"a": 0}) == searcher.search({}) == searcher.search({EMPTY_TERM: 1, NO_TERMS: 1}) == []
    zero = ExactSearcher.from_vectors([("d1", {"a": 0}), ("d2", {"a": 0})])
    assert zero.search({"a": 1}) == zero.search({"a": 2**40}) == []
    empty: list[dict[str, dict[str, int]]] = [{}, {"d1": {}, "d2": {}}]
    for documents in empty:
        assert ExactSearcher.from_vectors(documents.items()).search_batch({"q": {"a": 2**40}}, threads=2) == {"q": []}


def test_load_encoded_folders_and_plain_files(tmp_path: Path) -> None:
    first = write_folder(tmp_path / "1", dict(list(FEW_VECTORS.items())[:3]))
    second = write_folder(tmp_path / "2", dict(list(FEW_VECTORS.items())[3:]))
    files = [*(first / "vectors").iterdir(), *(second / "vectors").iterdir()]
    expected = ExactSearcher.from_vectors(FEW_VECTORS.items())
    query = {"a": 1, "b": 1, "c": 1}
    for paths in ([first, str(second)], files, [first / "vectors", second]):
        searcher = ExactSearcher.load(*paths)
        assert searcher.search(query) == expected.search(query) == [("d10", 300), ("d1", 3), ("d3", 2), ("d4", 1)]
