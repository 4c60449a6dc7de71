"""Usage, Zipf slope, stop-dimensions and cuts of dimensions, checked by hand and against pruning."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.costs import TermCounts, count_terms, expected_flops
from eval.profile.frequencies import (
    Cut,
    StopDimension,
    cuts,
    frequency_chart,
    ranks,
    stop_dimensions,
    usage,
)
from learned_sparse.jsonvector.reader import frequent_terms

DOCUMENTS = count_terms([["the", "rash"], ["the", "hives"], ["the", "rash", "skin"], ["the"], []])
QUERIES = count_terms([["the", "rash"], ["wing"], ["rash"]])

frequencies = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.integers(1, 12), min_size=1)
query_terms = st.lists(st.sets(st.text("abcdef", min_size=1, max_size=3), max_size=4), min_size=1, max_size=5)


def counted(counts: Mapping[str, int], texts: int) -> TermCounts:
    return TermCounts(counts, texts, sum(counts.values()), np.zeros(texts, np.int32))


def test_usage_and_stop_dimensions_by_hand() -> None:
    result = usage(DOCUMENTS)
    assert (result.texts, result.dimensions, result.singletons, result.postings, result.half) == (5, 4, 2, 8, 1)
    # "rash" has a share of exactly 0.4, which is not above 0.4
    assert stop_dimensions(DOCUMENTS, QUERIES, 0.4) == (StopDimension("the", 4 / 5, 1 / 3),)
    assert [dimension.dimension for dimension in stop_dimensions(DOCUMENTS, None, 0.39)] == ["the", "rash"]


def test_a_zipf_distribution_has_slope_minus_one() -> None:
    counts = counted({f"t{rank}": 5040 // rank for rank in range(1, 11)}, 10_000)
    assert usage(counts).slope == pytest.approx(-1, abs=0.01)
    assert ranks(counts) == [(float(rank), 5040 // rank) for rank in range(1, 11)]
    assert frequency_chart(counts, QUERIES).count('id="line-') == 2
    assert usage(count_terms([["a"], ["a"]])).slope is None
    assert usage(count_terms([[]])).half == 0


def test_many_ranks_are_sampled() -> None:
    counts = counted({f"t{rank}": 10_000 - rank for rank in range(5000)}, 10_000)
    points = ranks(counts)
    assert points[0] == (1, 10_000)
    assert points[-1] == (5000, 10_000 - 4999)
    assert len(points) <= 120


def test_cuts_by_hand() -> None:
    documents = counted({"the": 4, "rash": 2, "hives": 1}, 5)
    queries = count_terms([["the", "rash"], ["rash"], ["rash"]])
    lower, higher = cuts(documents, queries, [0.4, 0.8])  # "rash" has a share of exactly 0.4
    assert lower == Cut(share=0.4, dimensions=1, postings=4 / 7, flops=4 / (4 + 3 * 2))
    assert higher == Cut(share=0.8, dimensions=0, postings=0.0, flops=0.0)
    assert cuts(documents, None, [0.4])[0].flops is None


@given(frequency=frequencies, query_texts=query_terms, share=st.integers(1, 12))
def test_cuts_equal_what_pruning_removes(frequency: dict[str, int], query_texts: list[set[str]], share: int) -> None:
    documents, queries = counted(frequency, 12), count_terms(query_texts)
    removed = frequent_terms(frequency, 12, share / 12)
    (cut,) = cuts(documents, queries, [share / 12])
    assert cut.dimensions == len(removed)
    assert cut.postings == pytest.approx(sum(removed.values()) / sum(frequency.values()))
    flops = expected_flops(documents, queries)
    remaining = {term: count for term, count in frequency.items() if term not in removed}
    if flops:
        assert cut.flops == pytest.approx(1 - expected_flops(counted(remaining, 12), queries) / flops)


def test_empty_vectors() -> None:
    assert cuts(counted({}, 3), None, [0.5])[0].postings == 0.0
