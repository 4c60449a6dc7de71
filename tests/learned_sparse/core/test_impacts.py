"""Weights become impacts, and terms are those that Lucene can hold."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.lines import EMPTY_TERM, NO_TERMS, unfit_reason
from learned_sparse.core.quantize import MAX_IMPACT, Quantizer, calibrate_on
from learned_sparse.core.records import SparseBatch
from learned_sparse.jsonvector.writer import LuceneTerms, check_impacts

weights = st.lists(st.floats(0, 1e6, width=32), max_size=40)
scales = st.floats(1e-3, 1e3)


def one_row(values: list[float]) -> SparseBatch:
    count = len(values)
    return SparseBatch(
        np.array([0, count]),
        np.arange(count, dtype=np.int32),
        np.array(values, dtype=np.float32),
        [f"t{number}" for number in range(count)],
    )


@given(weights, scales)
def test_impacts_are_within_half_a_step(values: list[float], scale: float) -> None:
    batch = one_row(values)
    impacts = Quantizer(scale).quantize(batch)[0].row(0)
    for term, weight in batch.row(0).items():
        exact = weight * scale
        if exact <= MAX_IMPACT:
            assert abs(impacts.get(term, 0) - exact) <= 0.5


@given(weights, scales, st.sampled_from([None, 1, 4, 8, 31]))
def test_order_is_preserved(values: list[float], scale: float, bits: int | None) -> None:
    batch = one_row(values)
    impacts = Quantizer(scale, bits).quantize(batch)[0].row(0)
    ordered = [impacts.get(term, 0) for term, _ in sorted(batch.row(0).items(), key=lambda item: item[1])]
    assert ordered == sorted(ordered)
    assert all(1 <= impact <= 2 ** (bits or 31) - 1 for impact in impacts.values())


def test_by_hand() -> None:
    batch = SparseBatch.from_dicts([{"a": 0.5, "b": 1.5, "c": 2.5}, {}, {"a": 0.4}, {"c": 7.0, "b": 300.0}])
    impacts, statistics = Quantizer(1.0, 8).quantize(batch)
    # ties go to the even neighbour: 0.5 to 0, 1.5 and 2.5 to 2
    assert [impacts.row(row) for row in range(4)] == [{"b": 2, "c": 2}, {}, {}, {"b": 255, "c": 7}]
    assert statistics == {"clipped": 1, "lost_to_rounding": 2}
    assert impacts.values.dtype == np.int32


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), -0.25])
def test_the_error_for_an_invalid_weight_names_document_and_term(bad: float) -> None:
    batch = SparseBatch.from_dicts([{"a": 1.0}, {}, {"a": 1.0, "hives": bad}])
    with pytest.raises(LearnedSparseError, match=r"document 'd3': term 'hives' has the weight"):
        Quantizer(100.0).quantize(batch, ["d1", "d2", "d3"])
    with pytest.raises(LearnedSparseError, match=r"text 2: term 'hives'"):
        Quantizer(100.0).quantize(batch)


def test_weights_beyond_a_java_int_are_clipped() -> None:
    impacts, statistics = Quantizer(1e30).quantize(one_row([1e30]))
    assert impacts.row(0) == {"t0": 2**31 - 1} == {"t0": MAX_IMPACT}
    assert statistics["clipped"] == 1


@given(st.lists(st.floats(2**-10, 1024, width=32), min_size=1, max_size=40), st.integers(1, 16))
def test_calibration_at_100_clips_nothing_and_uses_the_whole_range(values: list[float], bits: int) -> None:
    batch = one_row(values)
    impacts, statistics = Quantizer.calibrate(batch.values, bits).quantize(batch)
    assert statistics["clipped"] == 0
    assert impacts.values.max() == 2**bits - 1


def test_calibration_ignores_zeros() -> None:
    values = np.array([0.0] * 98 + [1.0, 3.0])
    assert Quantizer.calibrate(values, 8, percentile=50).scale == 255 / 2
    with pytest.raises(LearnedSparseError, match="no positive weight"):
        Quantizer.calibrate(np.zeros(3), 8)
    for percentile in (0, 101):
        with pytest.raises(LearnedSparseError, match=f"percentile {percentile}"):
            Quantizer.calibrate(values, 8, percentile=percentile)
    assert Quantizer.calibrate(values, 8) == Quantizer(255 / 3, 8) == calibrate_on(one_row([0.0, 1.0, 3.0]))


@pytest.mark.parametrize(("scale", "bits"), [(0.0, None), (float("nan"), 8), (1.0, 0), (1.0, 32)])
def test_invalid_quantisers(scale: float, bits: int | None) -> None:
    with pytest.raises(LearnedSparseError, match="give"):
        Quantizer(scale, bits)


# Java's Character.isWhitespace: separators except the three no-break spaces, and these control characters.
JAVA_WHITE_SPACE = {
    character
    for character in map(chr, range(0x110000))
    if unicodedata.category(character) in {"Zs", "Zl", "Zp"} and character not in "\u00a0\u2007\u202f"
} | set("\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f")


FIT = ["##ing", "é", "日本", "|", "[CLS]", "a" * 254, "😀" * 127, "b12d61183", "\u200b"]
UNFIT = [
    ("", "empty"),
    ("new york", "white space"),
    ("a\tb", "white space"),
    (" a", "white space"),
    ("a\u00a0b", "white space"),  # Pyserini splits topics here, Lucene does not
    ("a" * 255, "longer than 254"),
    ("😀" * 128, "longer than 254"),  # two Java characters each
    ("\ud800", "surrogate"),
    (EMPTY_TERM, "reserved"),
    (NO_TERMS, "reserved"),
]


def test_fit() -> None:
    assert [term for term in FIT if unfit_reason(term)] == []


@pytest.mark.parametrize(("term", "reason"), UNFIT)
def test_unfit(term: str, reason: str) -> None:
    assert reason in (unfit_reason(term) or "")


def test_every_white_space_of_java_is_unfit() -> None:
    assert len(JAVA_WHITE_SPACE) > 20
    assert [c for c in JAVA_WHITE_SPACE if not (unfit_reason(f"a{c}b") and unfit_reason(c))] == []


def test_check_names_document_and_term() -> None:
    terms = ["a", "new york", "a"]
    checked = LuceneTerms(terms)
    valid = SparseBatch(np.array([0, 0, 1]), np.array([0], np.int32), np.array([3], np.int32), terms)
    check_impacts(["d1", "d2"], valid, checked)
    for number, message in ((1, "'d2': Lucene cannot hold the term 'new york'"), (2, "dimensions 0 and 2 have")):
        bad = SparseBatch(np.array([0, 0, 1]), np.array([number], np.int32), np.array([3], np.int32), terms)
        with pytest.raises(LearnedSparseError, match=message):
            check_impacts(["d1", "d2"], bad, checked)
