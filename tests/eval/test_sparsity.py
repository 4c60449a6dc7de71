"""Expected FLOPS compared with a double loop; terms per text checked by hand."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from eval.costs import count_terms, expected_flops

QUERIES = [["b", "c"], [], ["z"]]

texts = st.lists(st.sets(st.sampled_from("abcdefg"), max_size=5), min_size=1, max_size=6)


@given(documents=texts, queries=texts)
def test_flops_are_the_mean_number_of_shared_terms(documents: list[set[str]], queries: list[set[str]]) -> None:
    shared = [len(query & document) for query in queries for document in documents]
    counts = count_terms(documents)
    assert expected_flops(counts, count_terms(queries)) == sum(shared) / len(shared)
    assert counts.lengths.tolist() == [len(document) for document in documents]
    assert (counts.texts, counts.postings) == (len(documents), sum(map(len, documents)))
    assert all(count == sum(term in text for text in documents) for term, count in counts.document_frequency.items())


def test_repeated_terms_and_empty_vectors() -> None:
    assert count_terms([["b", "b", "c"]]).document_frequency == {"b": 1, "c": 1}
    assert math.isnan(expected_flops(count_terms([]), count_terms(QUERIES)))
    assert expected_flops(count_terms([[]]), count_terms(QUERIES)) == 0
