"""Batches of similar length, and padding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.encoding.batching import BatchSize, pad, pad_slices
from learned_sparse.core.errors import LearnedSparseError


@given(st.lists(st.integers(0, 300)), st.integers(1, 500), st.sampled_from(["", "t"]))
def test_every_text_is_in_one_batch_within_the_limit(lengths: list[int], limit: int, unit: str) -> None:
    size = BatchSize.parse(f"{limit}{unit}")
    batches = [batch.tolist() for batch in size.batches(np.array(lengths, dtype=np.int64))]
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    for batch in batches:
        used = len(batch) if unit == "" else len(batch) * max(lengths[place] for place in batch)
        assert used <= limit or len(batch) == 1


def test_texts_of_similar_length_go_together() -> None:
    batches = BatchSize.parse("8t").batches(np.array([2, 8, 2, 3, 2]))
    assert [batch.tolist() for batch in batches] == [[1], [3, 0], [2, 4]]


@pytest.mark.parametrize("value", ["0", "0t", "", "t", "-3", "1.5", "32 t", "many", 0])
def test_nonsense(value: str | int) -> None:
    with pytest.raises(LearnedSparseError, match="4096t"):
        BatchSize.parse(value)


def test_padding() -> None:
    ids, mask = pad([[4, 8, 5], [4], []], padding_id=7)
    assert ids.tolist() == [[4, 8, 5], [4, 7, 7], [7, 7, 7]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
    assert pad([[]], 0)[0].shape == (1, 1)


def test_slices_of_a_long_sequence() -> None:
    tokens, starts, lengths = np.array([9, 4, 8, 5, 6]), np.array([4, 1, 0]), np.array([1, 3, 0])
    ids, mask = pad_slices(tokens, starts, lengths, padding_id=0)
    assert ids.tolist() == [[6, 0, 0], [4, 8, 5], [0, 0, 0]]
    assert mask.tolist() == [[1, 0, 0], [1, 1, 1], [0, 0, 0]]
