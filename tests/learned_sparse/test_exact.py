"""The exact searcher equals a double loop."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.errors import LearnedSparseError
from learned_sparse.exact import ExactSearcher, main
from learned_sparse.jsonvector import write_part
from learned_sparse.lucene_terms import EMPTY_TERM
from learned_sparse.records import SparseBatch

vectors = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 3), max_size=5)
collections = st.dictionaries(st.text(st.sampled_from("0123é😀"), min_size=1, max_size=3), vectors, max_size=30)


def double_loop(documents: Mapping[str, Mapping[str, int]], query: Mapping[str, int], k: int) -> list[tuple[str, int]]:
    hits = []
    for name, vector in documents.items():
        score = 0
        for term, impact in query.items():
            score += impact * vector.get(term, 0)
        if score > 0:
            hits.append((name, score))
    return sorted(hits, key=lambda hit: (-hit[1], hit[0]))[:k]


@given(collections, st.lists(vectors, max_size=3), st.integers(0, 40))
def test_equals_a_double_loop(documents: dict[str, dict[str, int]], queries: list[dict[str, int]], k: int) -> None:
    searcher = ExactSearcher.from_vectors(documents.items())
    named = {f"q{number}": query for number, query in enumerate(queries)}
    assert searcher.search_batch(named, k) == {name: double_loop(documents, query, k) for name, query in named.items()}


def test_ties_at_the_cut_go_to_the_smaller_id() -> None:
    searcher = ExactSearcher.from_vectors([(name, {"a": 1}) for name in ("d2", "d10", "d1", "d3")])
    assert searcher.search({"a": 2}, k=2) == [("d1", 2), ("d10", 2)]


def test_large_scores_are_exact() -> None:
    searcher = ExactSearcher.from_vectors([("d1", {"a": 2**31 - 1, "b": 1}), ("d2", {"a": 2**31 - 1})])
    assert searcher.search({"a": 2**30, "b": 1}) == [("d1", (2**31 - 1) * 2**30 + 1), ("d2", (2**31 - 1) * 2**30)]
    with pytest.raises(LearnedSparseError, match="64 bits"):
        searcher.search({"a": 2**31, "b": 2**31, "c": 2**31})


@pytest.mark.parametrize("impact", [-1, 0.5, True, np.float32(1)])
def test_queries_are_whole_numbers(impact: int) -> None:
    with pytest.raises(LearnedSparseError, match="query term 'a' has the impact"):
        ExactSearcher.from_vectors([("d1", {"a": 1})]).search({"a": impact})


def test_empty_vectors_match_nothing(tmp_path: Path) -> None:
    batch = SparseBatch.from_dicts([{}, {"a": 2}], dtype=np.int32)
    write_part(tmp_path / "part.jsonl", ["d1", "d2"], ["", ""], batch)
    searcher = ExactSearcher.from_vectors(tmp_path)
    assert searcher.ids == ["d1", "d2"]
    assert searcher.search({EMPTY_TERM: 1, "a": 1, "zero": 0}) == [("d2", 2)]
    assert searcher.search({}) == []
    assert ExactSearcher.from_vectors([]).search({"a": 1}) == []


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = SparseBatch.from_dicts([{"a": 1}, {"a": 2, "b": 5}], dtype=np.int32)
    write_part(tmp_path / "part.jsonl", ["d1", "d2"], ["", ""], batch)
    (tmp_path / "queries.tsv").write_text("q1\ta a b\nq2\t[no-terms]\n")
    arguments = ["--vectors", tmp_path / "part.jsonl", "--queries", tmp_path / "queries.tsv", "--output"]
    assert main([*map(str, arguments), str(tmp_path / "run.txt"), "--hits", "1"]) == 0
    assert (tmp_path / "run.txt").read_text() == "q1 Q0 d2 1 9.000000 exact\n"
    assert "2 queries, 2 documents" in capsys.readouterr().out
