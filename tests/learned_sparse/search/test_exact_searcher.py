"""The exact searcher equals a double loop over documents and query terms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.terms import EMPTY_TERM, NO_TERMS
from learned_sparse.search.exact_searcher import ExactSearcher
from tests.learned_sparse.encoded_folder import dot_products, write_folder

impacts = st.integers(1, 3) | st.sampled_from([255, 256, 65_535, 65_536, 2**31 - 1])
vectors = st.dictionaries(st.sampled_from("abcdefgh"), impacts, max_size=5)
queries = st.dictionaries(st.sampled_from("abcdefghxyz"), st.integers(0, 3), max_size=5)
collections = st.dictionaries(st.text(st.sampled_from("0123é😀"), min_size=1, max_size=3), vectors, max_size=30)
VECTORS = {"d3": {"a": 2}, "d1": {"a": 1, "b": 2}, "d2": {}, "d10": {"c": 300}, "d4": {"b": 1}}


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
    first = write_folder(tmp_path / "1", dict(list(VECTORS.items())[:3]))
    second = write_folder(tmp_path / "2", dict(list(VECTORS.items())[3:]))
    files = [*(first / "vectors").iterdir(), *(second / "vectors").iterdir()]
    expected = ExactSearcher.from_vectors(VECTORS.items())
    assert (expected._matrix.indices.itemsize, expected._matrix.data.itemsize) == (4, 2)  # bytes of a posting
    query = {"a": 1, "b": 1, "c": 1}
    for paths in ([first, str(second)], files, [first / "vectors", second]):
        searcher = ExactSearcher.load(*paths)
        assert searcher.search(query) == expected.search(query) == [("d10", 300), ("d1", 3), ("d3", 2), ("d4", 1)]
    other = write_folder(tmp_path / "3", {"d11": {"a": 1}}, quantizer=Quantizer(2.0))
    with pytest.raises(LearnedSparseError, match=r"not encoded as .*1 was: quantizer.scale: 1.0 before, 2.0 now"):
        ExactSearcher.load(first, other)
