"""Terms that Lucene can and cannot hold."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import SparseBatch
from learned_sparse.core.terms import EMPTY_TERM, NO_TERMS, LuceneTerms, unfit_reason
from learned_sparse.jsonvector.writer import check_impacts

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
