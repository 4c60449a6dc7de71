"""The exact searcher equals a double loop."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.terms import EMPTY_TERM, NO_TERMS
from learned_sparse.exact import ExactSearcher, Hits, main
from learned_sparse.jsonvector.vector_files import write_part

vectors = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 3), max_size=5)
asked = st.dictionaries(st.sampled_from("abcdefghxyz"), st.integers(0, 3), max_size=5)
collections = st.dictionaries(st.text(st.sampled_from("0123é😀"), min_size=1, max_size=3), vectors, max_size=30)


def double_loop(documents: Mapping[str, Mapping[str, int]], query: Mapping[str, int], k: int) -> Hits:
    hits = []
    for name, vector in documents.items():
        score = 0
        for term, impact in query.items():
            score += impact * vector.get(term, 0)
        if score > 0:
            hits.append((name, score))
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]


@given(collections, st.lists(asked, max_size=3), st.integers(0, 40), st.sampled_from([1, 2, 4]))
def test_equals_a_double_loop(
    documents: dict[str, dict[str, int]], queries: list[dict[str, int]], k: int, threads: int
) -> None:
    searcher = ExactSearcher.from_vectors(documents.items())
    named = {f"q{number}": query for number, query in enumerate(queries)}
    expected = {name: double_loop(documents, query, k) for name, query in named.items()}
    found = searcher.search_batch(named, k, threads)
    assert found == expected
    assert list(found) == list(named)


def test_threads_search_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = ExactSearcher.from_vectors([("d1", {"a": 1})])
    alone, together = searcher.search, threading.Barrier(2, timeout=60)

    def search(query: Mapping[str, int], k: int) -> Hits:
        together.wait()  # for another thread that is here too
        return alone(query, k)

    monkeypatch.setattr(searcher, "search", search)
    queries = {f"q{number}": {"a": number} for number in range(1, 5)}
    assert searcher.search_batch(queries, threads=2) == {f"q{number}": [("d1", number)] for number in range(1, 5)}


def random_rows(count: int, terms: int, largest: int, seed: int) -> list[dict[str, int]]:
    """Rows of up to ``terms`` of twice as many terms."""
    random = np.random.default_rng(seed)
    sizes = random.integers(0, terms + 1, count)
    columns = [random.choice(2 * terms, size, replace=False).tolist() for size in sizes]
    return [{f"t{column}": int(random.integers(1, largest + 1)) for column in row} for row in columns]


@pytest.mark.parametrize("largest", [1, 2, 255, 256, 65_535, 65_536, 2**31 - 1])
@pytest.mark.parametrize("threads", [1, 4])
def test_many_ties_and_every_width_of_impacts(largest: int, threads: int) -> None:
    rows = random_rows(700, 12, largest, seed=largest)
    names = np.random.default_rng(0).permutation(len(rows)).tolist()
    documents = {f"d{name}": row for name, row in zip(names, rows, strict=True)}
    queries = {f"q{number}": row for number, row in enumerate(random_rows(30, 8, 3, seed=1))}
    searcher = ExactSearcher.from_vectors(documents.items())
    for k in (1, 10, 100, 1000):
        expected = {name: double_loop(documents, query, k) for name, query in queries.items()}
        assert searcher.search_batch(queries, k, threads) == expected


def test_ties_at_the_cut_go_to_the_smaller_id() -> None:
    searcher = ExactSearcher.from_vectors([(name, {"a": 1}) for name in ("d2", "d10", "d1", "d3")])
    assert searcher.search({"a": 2}, k=2) == [("d1", 2), ("d10", 2)]
    assert searcher.search({"a": 2}, k=4) == [("d1", 2), ("d10", 2), ("d2", 2), ("d3", 2)]
    assert searcher.search({"a": 2}, k=0) == []


def test_ids_are_in_the_order_that_breaks_ties() -> None:
    searcher = ExactSearcher.from_vectors([("d2", {"a": 7}), ("d10", {"a": 5}), ("d1", {}), ("😀", {"b": 1})])
    assert searcher.ids == ["d1", "d10", "d2", "😀"]
    assert searcher.scores({"a": 1, "b": 3}).tolist() == [0, 5, 7, 3]
    assert len(searcher) == 4


def test_large_scores_are_exact() -> None:
    searcher = ExactSearcher.from_vectors([("d1", {"a": 2**31 - 1, "b": 1}), ("d2", {"a": 2**31 - 1})])
    assert searcher.search({"a": 2**30, "b": 1}) == [("d1", (2**31 - 1) * 2**30 + 1), ("d2", (2**31 - 1) * 2**30)]
    with pytest.raises(LearnedSparseError, match="64 bits"):
        searcher.search({"a": 2**31, "b": 2**31, "c": 2**31})
    assert searcher.search({"c": 2**32}) == []


@pytest.mark.parametrize(
    ("query", "width"), [({"a": 2**31 // 255, "b": 0}, 4), ({"a": 2**31 // 255, "b": 1}, 8), ({"a": 2**40}, 8)]
)
def test_scores_are_as_wide_as_they_must_be(query: dict[str, int], width: int) -> None:
    searcher = ExactSearcher.from_vectors([("d1", {"a": 255, "b": 255}), ("d2", {"a": 254})])
    assert searcher.scores(query).itemsize == width
    assert searcher.search(query) == [("d1", 255 * (query["a"] + query.get("b", 0))), ("d2", 254 * query["a"])]


@pytest.mark.parametrize(("largest", "bytes_each"), [(255, 1), (256, 2), (65_536, 4)])
def test_impacts_take_as_few_bytes_as_they_need(largest: int, bytes_each: int) -> None:
    postings = ExactSearcher.from_vectors([("d1", {"a": 1, "b": largest}), ("d2", {"a": 2})])._postings
    assert postings._documents.nbytes == 3 * 4
    assert postings._impacts.nbytes == 3 * bytes_each


@pytest.mark.parametrize("impact", [-1, 0.5, True, np.float32(1)])
def test_queries_are_whole_numbers(impact: int) -> None:
    searcher = ExactSearcher.from_vectors([("d1", {"a": 1})])
    for threads in (1, 2):
        with pytest.raises(LearnedSparseError, match="query term 'a' has the impact"):
            searcher.search_batch({"q1": {"a": 1}, "q2": {"a": impact}}, threads=threads)


def test_empty_vectors_match_nothing(tmp_path: Path) -> None:
    batch = SparseBatch.from_dicts([{}, {"a": 2}], dtype=np.int32)
    write_part(tmp_path / "part.jsonl", ["d1", "d2"], ["", ""], batch)
    searcher = ExactSearcher.from_vectors(tmp_path)
    assert searcher.ids == ["d1", "d2"]
    assert searcher.search({EMPTY_TERM: 1, NO_TERMS: 1, "a": 1, "zero": 0}) == [("d2", 2)]
    assert searcher.search({"a": 0}) == []
    assert searcher.search({}) == []
    collections: list[dict[str, dict[str, int]]] = [{}, {"d1": {}, "d2": {}}]
    for nothing in collections:
        assert ExactSearcher.from_vectors(nothing.items()).search({"a": 1}) == []
        assert ExactSearcher.from_vectors(nothing.items()).search_batch({"q": {"a": 2**40}}, threads=2) == {"q": []}


def test_impacts_of_zero_match_nothing() -> None:
    searcher = ExactSearcher.from_vectors([("d1", {"a": 0}), ("d2", {"a": 0})])
    assert searcher.search({"a": 1}) == []
    assert searcher.search({"a": 2**40}) == []
    assert ExactSearcher.from_vectors([("d1", {"a": 0}), ("d2", {"a": 3})]).search({"a": 2}) == [("d2", 6)]


def test_reserved_terms_match_nothing() -> None:
    assert ExactSearcher.from_vectors([("d1", {EMPTY_TERM: 1}), ("d2", {NO_TERMS: 1})]).search(
        {EMPTY_TERM: 1, NO_TERMS: 1}
    ) == []  # fmt: skip


@pytest.mark.parametrize("values", [[-1, 2], [0.5, 2.0]])
def test_impacts_are_whole_numbers(values: list[float]) -> None:
    batch = SparseBatch.from_dicts([{"a": values[0]}, {"a": values[1]}], dtype=np.array(values).dtype)
    with pytest.raises(ValueError, match="impacts are integers from 0"):
        ExactSearcher(["d1", "d2"], batch)
    with pytest.raises(ValueError, match="1 ids for 2 vectors"):
        ExactSearcher(["d1"], batch)


@pytest.mark.parametrize("threads", [[], ["--threads", "2"]])
def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], threads: list[str]) -> None:
    batch = SparseBatch.from_dicts([{"a": 1}, {"a": 2, "b": 5}], dtype=np.int32)
    write_part(tmp_path / "part.jsonl", ["d1", "d2"], ["", ""], batch)
    (tmp_path / "queries.tsv").write_text("q1\ta a b\nq2\t[no-terms]\n")
    arguments = ["--vectors", tmp_path / "part.jsonl", "--queries", tmp_path / "queries.tsv", "--output"]
    assert main([*map(str, arguments), str(tmp_path / "run.txt"), "--hits", "1", *threads]) == 0
    assert (tmp_path / "run.txt").read_text() == "q1 Q0 d2 1 9.000000 exact\n"
    assert "2 queries, 2 documents" in capsys.readouterr().out
    for option in ("--hits", "--threads"):
        with pytest.raises(LearnedSparseError, match=f"{option} 0: give at least 1"):
            main([*map(str, arguments), str(tmp_path / "run.txt"), option, "0"])
