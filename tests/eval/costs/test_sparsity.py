"""Expected FLOPS against a double loop; terms per text and document frequencies by pencil."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.costs import TermCounts, count_terms, expected_flops, terms_per_text
from eval.costs.sparsity import document_frequencies
from learned_sparse.core import LearnedSparseError, SparseBatch

DOCUMENTS = [{"a": 2, "b": 1}, {"b": 3}, {}, {"b": 1, "c": 9}]
QUERIES = [{"b": 1, "c": 2}, {}, {"z": 4}]

texts = st.lists(st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 3), max_size=5), min_size=1, max_size=6)


def batch(rows: list[dict[str, int]]) -> SparseBatch:
    return SparseBatch.from_dicts(rows, dtype=np.int32)


def test_flops_by_pencil() -> None:
    # b is shared by three pairs, c by one, of 4 × 3
    assert expected_flops(batch(DOCUMENTS), batch(QUERIES)) == 4 / 12


@given(documents=texts, queries=texts)
def test_flops_are_the_mean_number_of_shared_terms(
    documents: list[dict[str, int]], queries: list[dict[str, int]]
) -> None:
    shared = [
        sum(1 for term, weight in query.items() if weight > 0 and document.get(term, 0) > 0)
        for query in queries
        for document in documents
    ]
    assert expected_flops(batch(documents), batch(queries)) == sum(shared) / len(shared)


@given(rows=texts)
def test_a_stream_counts_as_a_batch_does(rows: list[dict[str, int]]) -> None:
    active = [{term: weight for term, weight in row.items() if weight} for row in rows]
    streamed, counted = count_terms(iter(active)), count_terms(batch(rows))
    assert streamed.document_frequency == counted.document_frequency
    assert streamed.lengths.tolist() == counted.lengths.tolist() == [len(row) for row in active]
    assert streamed.texts == len(rows)
    assert streamed.postings == sum(map(len, active))


def test_repeated_terms_and_empty_vectors() -> None:
    assert count_terms([["b", "b", "c"]]).document_frequency == {"b": 1, "c": 1}
    nothing = TermCounts({}, np.empty(0, np.int32))
    assert math.isnan(expected_flops(nothing, batch(QUERIES)))
    assert expected_flops(batch([{}]), batch(QUERIES)) == 0


def test_terms_per_text() -> None:
    found = terms_per_text(np.array([0, 1, 2, 3, 14], np.int32))
    assert (found.mean, found.minimum, found.median, found.maximum, found.empty) == (4, 0, 2, 14, 1)
    assert (found.q25, found.q75) == (1, 3)
    assert (found.q05, found.q95) == pytest.approx((0.2, 3 + 0.8 * 11))
    with pytest.raises(LearnedSparseError, match="no vectors"):
        terms_per_text(count_terms([]).lengths)


def test_document_frequencies() -> None:
    found = document_frequencies(count_terms(batch(DOCUMENTS)), top=2)
    assert (found.texts, found.terms, found.postings, found.singletons) == (4, 3, 5, 2)
    assert found.top == (("b", 0.75), ("a", 0.25))
    assert found.top_share == 4 / 5
    assert document_frequencies(count_terms([[]])).top_share == 0
