"""The searcher in blocks equals the exact searcher, whatever the blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.sweep import block_search
from eval.sweep.block_search import BlockSearcher
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch
from learned_sparse.search import ExactSearcher

TERMS = "abcdefgh"
vectors = st.dictionaries(st.sampled_from(TERMS), st.integers(1, 3), max_size=5)
collections = st.dictionaries(st.text(st.sampled_from("0123é😀"), min_size=1, max_size=3), vectors, max_size=30)


def batch(rows: list[dict[str, int]], dtype: str = "int32") -> SparseBatch:
    """Over ``TERMS`` whatever occurs in ``rows``."""
    lengths = [0, *(len(row) for row in rows)]
    columns = [sorted(TERMS.index(term) for term in row) for row in rows]
    indices = [column for row in columns for column in row]
    values = [row[TERMS[column]] for row, of_row in zip(rows, columns, strict=True) for column in of_row]
    return SparseBatch(np.cumsum(lengths), np.array(indices, np.int32), np.array(values, dtype), TERMS)


@given(collections, st.lists(vectors, max_size=5), st.integers(1, 40), st.sampled_from([1, 2**23]))
def test_equals_the_exact_searcher(
    documents: dict[str, dict[str, int]], queries: list[dict[str, int]], hits: int, scores: int
) -> None:
    named = {f"q{number}": query for number, query in enumerate(queries)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_search, "SCORES", scores)
        searcher = BlockSearcher(list(documents), batch(list(documents.values())))
        found = searcher.search(list(named), batch(queries), hits)
    assert found == ExactSearcher.from_vectors(documents.items()).search_batch(named, hits)


def test_small_integers_do_not_overflow() -> None:
    searcher = BlockSearcher(["d"], batch([dict.fromkeys(TERMS, 255)], "uint8"))
    assert searcher.search(["q"], batch([dict.fromkeys(TERMS, 255)], "uint8"), 9) == {"q": [("d", 8.0 * 255 * 255)]}


def test_scores_beyond_64_bits_are_refused() -> None:
    searcher = BlockSearcher(["d"], batch([{"a": 2**31 - 1}]))
    assert searcher.search(["q"], batch([{}]), 9) == {"q": []}
    with pytest.raises(LearnedSparseError, match="64 bits"):
        searcher.search(["none", "q"], batch([{}, {"a": 2**31, "b": 2**31, "c": 2**31}], "int64"), 9)
