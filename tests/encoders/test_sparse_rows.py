"""Rows that come bit by bit are those that came, in the order asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.encoding import sparse_rows
from encoders.encoding.sparse_rows import RowCollector
from learned_sparse.core.records import SparseBatch

TERMS = [f"t{number}" for number in range(9)]
rows = st.dictionaries(st.sampled_from(range(9)), st.floats(0.5, 2, width=32), max_size=9)


def batch(some: list[dict[int, float]]) -> SparseBatch:
    vectors = [sorted(row.items()) for row in some]
    indptr = np.cumsum([0, *map(len, vectors)]).astype(np.int64)
    pairs = [pair for vector in vectors for pair in vector]
    indices, values = ([pair[place] for pair in pairs] for place in (0, 1))
    return SparseBatch(indptr, np.array(indices, np.int32), np.array(values, np.float32), TERMS)


@given(st.lists(st.lists(rows, max_size=4), max_size=6), st.randoms(use_true_random=False))
def test_collected_rows_are_those_added(batches: list[list[dict[int, float]]], random: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_rows, "_ROOM", 3)
        together = [row for some in batches for row in some]
        order = list(range(len(together)))
        random.shuffle(order)
        collector = RowCollector(len(together), TERMS)
        for some in batches:
            collector.add(batch(some))
        found = collector.batch(np.array(order, np.int64))
    assert [found.row(place) for place in range(len(found))] == [
        {TERMS[term]: np.float32(value) for term, value in together[place].items()} for place in order
    ]
