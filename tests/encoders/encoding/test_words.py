"""Word positions of a real tokenizer; segments cut at them have the tokens of the full text."""

from __future__ import annotations

import types
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoders.checkpoints.tokenizer import untruncated, word_spans
from learned_sparse.collections.segments import Segmentation
from learned_sparse.core.errors import LearnedSparseError
from tests.tiny_models import VOCABULARY, tokenizer

TOKENIZER = tokenizer()
PIECES = st.sampled_from([*VOCABULARY[7:], " ", "-", "É", "☃", "中", "winging", "rashness", "\u200b", "qqq" * 40])


def tokens(text: str) -> list[str]:
    return list(TOKENIZER.tokenize(text))


def test_words_and_their_tokens() -> None:
    assert word_spans(untruncated(TOKENIZER), ["Wings, lift!", "", "  drag "]) == [
        [(0, 5, 2), (5, 6, 1), (7, 11, 1), (11, 12, 1)],
        [],
        [(2, 6, 1)],
    ]


def test_truncation_of_the_tokenizer_is_ignored() -> None:
    TOKENIZER(["wing " * 50], truncation=True, max_length=5, padding="max_length")
    assert len(word_spans(untruncated(TOKENIZER), ["wing " * 50])[0]) == 50
    assert (TOKENIZER.backend_tokenizer.truncation or {})["max_length"] == 5


def test_a_tokenizer_without_positions() -> None:
    with pytest.raises(LearnedSparseError, match=r"tokenizer\.json"):
        word_spans(untruncated(types.SimpleNamespace()), [])


@given(st.lists(PIECES, max_size=30).map(" ".join) | st.lists(PIECES, max_size=30).map("".join), st.integers(1, 9))
def test_segments_have_the_tokens_of_the_full_text(text: str, length: int) -> None:
    words = word_spans(untruncated(TOKENIZER), [text])[0]
    spans = Segmentation(length=length).spans(words)
    parts = [tokens(text[start:end]) for start, end in spans]
    assert [token for part in parts for token in part] == tokens(text)
    longest = max((count for _, _, count in words), default=0)
    assert all(len(part) <= max(length, longest) for part in parts)
    assert Segmentation(length=length, which="first").spans(words) == spans[:1]


@given(st.lists(PIECES, max_size=30).map(" ".join), st.integers(2, 9), st.data())
def test_overlap_of_neighbouring_segments(text: str, length: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, length - 1))
    spans = Segmentation(length=length, overlap=overlap).spans(word_spans(untruncated(TOKENIZER), [text])[0])
    for (start, end), (following, last) in pairwise(spans):
        assert start < following
        assert end < last
        assert len(tokens(text[following:end])) <= overlap
        assert not tokens(text[end:following])  # no token is omitted
