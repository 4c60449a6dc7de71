"""Batches of similar length, and padding."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from encoders.encoding.batches import batch_limits, batches, pad


@given(st.lists(st.integers(0, 300)), st.integers(1, 500), st.sampled_from(["", "t"]))
def test_every_text_is_in_one_batch_within_the_limit(lengths: list[int], limit: int, unit: str) -> None:
    limits = batch_limits(f"{limit}{unit}", max_texts=50)
    chosen = [batch.tolist() for batch in batches(np.array(lengths, dtype=np.int64), *limits)]
    assert sorted(text for batch in chosen for text in batch) == list(range(len(lengths)))
    for batch in chosen:
        used = len(batch) if unit == "" else len(batch) * max(lengths[text] for text in batch)
        assert used <= limit or len(batch) == 1
        assert unit == "" or len(batch) <= 50
    ordered = [lengths[text] for batch in chosen for text in batch]
    assert ordered == sorted(lengths, reverse=True)  # texts of similar length share a batch


def test_padding() -> None:
    tokens, starts, lengths = np.array([9, 4, 8, 5, 6]), np.array([4, 1, 0]), np.array([1, 3, 0])
    ids, mask = pad(tokens, starts, lengths, padding_id=7)
    assert ids.tolist() == [[6, 7, 7], [4, 8, 5], [7, 7, 7]]
    assert mask.tolist() == [[1, 0, 0], [1, 1, 1], [0, 0, 0]]
    assert pad(tokens, starts[:1], np.array([0]), 0)[0].shape == (1, 1)
