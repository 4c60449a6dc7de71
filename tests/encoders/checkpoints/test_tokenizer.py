"""Pairs of text and expansion, words of texts, and byte-level tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from encoders.checkpoints.tokenizer import (
    TextEncoder,
    tokenize_texts,
    tokenizer_sha256,
    untruncated,
    with_word_marks,
    word_spans,
)
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.collections.documents import Document
from learned_sparse.collections.segments import Segmentation
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.records import EXPANDED
from tests.encoders.backbone.test_backbone_types import random_model
from tests.tiny_models import TEXTS, VOCABULARY, tokenizer

TOKENIZER = tokenizer()
PIECES = st.sampled_from([*VOCABULARY[7:], " ", "-", "É", "☃", "中", "winging", "rashness", "\u200b", "qqq" * 40])
PAIR = Document("d1", "Hives are caused", "what causes hives?").with_expanded


def pieces(texts: list[str], **options: Any) -> list[str]:
    return [
        " ".join(TOKENIZER.convert_ids_to_tokens(ids)) for ids in tokenize_texts(TOKENIZER, texts, **options).input_ids
    ]


def test_tokens_of_a_pair() -> None:
    assert pieces(["wing", PAIR, ""]) == [
        "[CLS] wing [SEP]",
        "[CLS] hives are caused [SEP] w ##h ##a ##t causes hives ? [SEP]",
        "[CLS] [SEP]",
    ]
    options: dict[str, Any] = {"truncation": True, "max_length": 9, "padding": True, "return_tensors": "pt"}
    assert tokenize_texts(TOKENIZER, TEXTS, **options).input_ids.equal(TOKENIZER(TEXTS, **options).input_ids)
    padded = tokenize_texts(TOKENIZER, ["wing", PAIR], padding=True, return_tensors="pt")
    pair = TOKENIZER("Hives are caused", "what causes hives?").input_ids
    assert (padded.input_ids[1].tolist(), padded.attention_mask.sum(1).tolist()) == (pair, [3, len(pair)])


def test_the_longer_part_is_cut_first() -> None:
    long, short = "wing lift drag flow heat", "hot skin"
    for text, cut in ((long, "wing lift drag"), (long[:14], "wing lift drag")):
        tokens = pieces([f"{text}{EXPANDED}{short}"], truncation=True, max_length=8)
        assert tokens == [f"[CLS] {cut} [SEP] hot skin [SEP]"]
    assert pieces([f"{short}{EXPANDED}{long}"], truncation=True, max_length=8) == [
        "[CLS] hot skin [SEP] wing lift drag [SEP]"
    ]


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


def test_a_tokenizer_written_in_python() -> None:
    """It encodes as transformers does, and cannot say where a token is in the text."""
    bytewise = ByT5Tokenizer()

    class Tokenizes(TextEncoder):
        encode_prepared: Any = None
        shares: Any = None

    encoder = Tokenizes(bytewise, sorted(bytewise.get_vocab()), 6)
    texts = ["wing", "", "wings of lift", "wing\x1flift"]
    ids, lengths, _ = encoder.prepare(texts)
    expected = bytewise([*texts[:3], ("wing", "lift")], truncation=True, max_length=6)["input_ids"]
    assert [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] == expected
    assert encoder.tokenizer_sha256 == tokenizer_sha256(bytewise)
    for ask in (lambda: encoder.word_spans(texts), lambda: encoder.explain("wing")):
        with pytest.raises(LearnedSparseError, match=r"tokenizer\.json"):
            ask()


@given(st.lists(PIECES, max_size=30).map(" ".join) | st.lists(PIECES, max_size=30).map("".join), st.integers(1, 9))
def test_segments_have_the_tokens_of_the_full_text(text: str, length: int) -> None:
    words = word_spans(untruncated(TOKENIZER), [text])[0]
    spans = Segmentation(length=length).spans(words)
    parts = [tokens(text[start:end]) for start, end in spans]
    assert [token for part in parts for token in part] == tokens(text)
    longest = max((count for _, _, count in words), default=0)
    assert all(len(part) <= max(length, longest) for part in parts)
    assert Segmentation(length=length, which="first").spans(words) == spans[:1]


def test_a_byte_level_tokenizer_treats_the_first_word_as_the_others(tmp_path: Path) -> None:
    vocabulary = {token: number for number, token in enumerate(["<s>", "l", "t", "Ġ", "Ġl", "Ġlt", "lt"])}
    bpe = Tokenizer(BPE(vocabulary, [("Ġ", "l"), ("Ġl", "t"), ("l", "t")]))
    bpe.pre_tokenizer = ByteLevel(add_prefix_space=False)
    assert bpe.encode("lt lt").tokens == ["lt", "Ġlt"]
    marked = with_word_marks(bpe)
    assert marked is not None
    assert marked.encode("lt lt").tokens == ["Ġlt", "Ġlt"]
    assert with_word_marks(marked) is None
    random_model("roberta").save_pretrained(tmp_path / "backbone")
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, pad_token="<s>", unk_token="<s>")
    fast.save_pretrained(tmp_path / "backbone")
    model = new_model("splade", {"query": "bag-of-words"}, str(tmp_path / "backbone"))
    save_checkpoint(tmp_path / "model", model)
    assert load_encoder(str(tmp_path / "model"), "query").encode(["lt lt"]).row(0) == {"Ġlt": 1.0}
    document: Any = load_encoder(str(tmp_path / "model"), "document")
    assert document.tokenizer.tokenize("lt lt") == ["Ġlt", "Ġlt"]
