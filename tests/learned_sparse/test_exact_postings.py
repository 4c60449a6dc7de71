"""The best of many scores are those that sorting all of them gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.search.exact_postings import STEP, best


def by_sorting(scores: list[int], k: int) -> list[int]:
    found = [place for place, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda place: (-scores[place], place))[:k]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2000), st.integers(1, 400), st.integers(0, 700), st.booleans())
def test_any_number_of_ties(seed: int, documents: int, largest: int, k: int, wide: bool) -> None:
    scores = np.random.default_rng(seed).integers(0, largest, documents)
    assert best(scores if wide else scores.astype(np.int32), k).tolist() == by_sorting(scores.tolist(), k)


@pytest.mark.parametrize("k", [1, 5, 100, 101, 200, 1500, 1600, 5000])
@pytest.mark.parametrize(("sampled", "others"), [(100, 1), (1, 100), (0, 7), (7, 0), (3, 3), (0, 0)])
def test_samples_that_mislead(k: int, sampled: int, others: int) -> None:
    scores = np.full(100 * STEP, others)
    scores[::STEP] = sampled
    assert best(scores, k).tolist() == by_sorting(scores.tolist(), k)
