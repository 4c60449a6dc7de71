"""Batches of similar length, padding, and the largest weights of sparse rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.encoding.batches import BatchSize, keep_top_k, pad
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch

TERMS = [f"t{number}" for number in range(9)]


@given(st.lists(st.integers(0, 300)), st.integers(1, 500), st.sampled_from(["", "t"]))
def test_every_text_is_in_one_batch_within_the_limit(lengths: list[int], limit: int, unit: str) -> None:
    size = BatchSize.parse(f"{limit}{unit}")
    chosen = [batch.tolist() for batch in size.batches(np.array(lengths, dtype=np.int64))]
    assert sorted(text for batch in chosen for text in batch) == list(range(len(lengths)))
    for batch in chosen:
        used = len(batch) if unit == "" else len(batch) * max(lengths[text] for text in batch)
        assert used <= limit or len(batch) == 1


def test_texts_of_similar_length_share_a_batch() -> None:
    chosen = BatchSize.parse("8t").batches(np.array([2, 8, 2, 3, 2]))
    assert [batch.tolist() for batch in chosen] == [[1], [3, 0], [2, 4]]


@pytest.mark.parametrize("value", ["0", "0t", "", "-3", "1.5", "32 t", "many", 0])
def test_invalid_batch_sizes(value: str | int) -> None:
    with pytest.raises(LearnedSparseError, match="4096t"):
        BatchSize.parse(value)


def test_padding() -> None:
    tokens, starts, lengths = np.array([9, 4, 8, 5, 6]), np.array([4, 1, 0]), np.array([1, 3, 0])
    ids, mask = pad(tokens, starts, lengths, padding_id=7)
    assert ids.tolist() == [[6, 7, 7], [4, 8, 5], [7, 7, 7]]
    assert mask.tolist() == [[1, 0, 0], [1, 1, 1], [0, 0, 0]]
    assert pad(tokens, starts[:1], np.array([0]), 0)[0].shape == (1, 1)


def test_the_largest_values_of_each_row() -> None:
    """Of equal values, those with the smaller term ids."""
    batch = SparseBatch.from_dicts([{"t0": 1.0, "t1": 2.0, "t2": 1.0, "t3": 1.0}, {}, {"t4": 3.0}], terms=TERMS)
    largest = keep_top_k(batch, 2)
    assert [largest.row(number) for number in range(3)] == [{"t0": 1.0, "t1": 2.0}, {}, {"t4": 3.0}]
