"""Expanded text is tokenized as the second sequence of a pair."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

from encoders.checkpoints.tokenizer import pair_of, tokenize_texts, with_word_marks
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import new_model, save_checkpoint
from learned_sparse.core.records import EXPANDED, Document
from tests.tiny_models import TEXTS

PAIR = Document("d1", "Hives are caused", "what causes hives?").with_expanded


@pytest.fixture(scope="module")
def tokenizer(tiny_bert: Path) -> Any:
    return transformers.AutoTokenizer.from_pretrained(tiny_bert)


def pieces(tokenizer: Any, texts: list[str], **options: Any) -> list[str]:
    return [
        " ".join(tokenizer.convert_ids_to_tokens(ids)) for ids in tokenize_texts(tokenizer, texts, **options).input_ids
    ]


def test_tokens_of_a_pair(tokenizer: Any) -> None:
    assert pieces(tokenizer, ["wing", PAIR, ""]) == [
        "[CLS] wing [SEP]",
        "[CLS] hives are caused [SEP] w ##h ##a ##t causes hives ? [SEP]",
        "[CLS] [SEP]",
    ]


def test_texts_without_expansion_are_unchanged(tokenizer: Any) -> None:
    options: dict[str, Any] = {"truncation": True, "max_length": 9, "padding": True, "return_tensors": "pt"}
    ours, plain = tokenize_texts(tokenizer, TEXTS, **options), tokenizer(TEXTS, **options)
    assert ours["input_ids"].tolist() == plain["input_ids"].tolist()


def test_the_longer_part_is_cut_first(tokenizer: Any) -> None:
    long, short = "wing lift drag flow heat", "hot skin"
    for text, cut in ((long, "wing lift drag"), (long[:14], "wing lift drag")):
        tokens = pieces(tokenizer, [f"{text}{EXPANDED}{short}"], truncation=True, max_length=8)
        assert tokens == [f"[CLS] {cut} [SEP] hot skin [SEP]"]
    assert pieces(tokenizer, [f"{short}{EXPANDED}{long}"], truncation=True, max_length=8) == [
        "[CLS] hot skin [SEP] wing lift drag [SEP]"
    ]


def test_only_the_first_mark_counts() -> None:
    assert pair_of(f"a{EXPANDED}b{EXPANDED}c") == ("a", f"b{EXPANDED}c")
    assert pair_of(f"{EXPANDED}b") == ("", "b")
    assert pair_of("") == ""


def test_training_tokenizes_pairs_in_the_same_way(tokenizer: Any) -> None:
    tokens = tokenize_texts(tokenizer, ["wing", PAIR], padding=True, return_tensors="pt")
    pair = tokenizer("Hives are caused", "what causes hives?").input_ids
    assert tokens["attention_mask"].sum(1).tolist() == [3, len(pair)]
    assert tokens["input_ids"][1].tolist() == pair


def test_a_byte_level_tokenizer_treats_the_first_word_as_the_others(tmp_path: Path) -> None:
    vocabulary = {token: number for number, token in enumerate(["<s>", "l", "t", "Ġ", "Ġl", "Ġlt", "lt"])}
    tokenizer = Tokenizer(BPE(vocabulary, [("Ġ", "l"), ("Ġl", "t"), ("l", "t")]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    assert tokenizer.encode("lt lt").tokens == ["lt", "Ġlt"]
    marked = with_word_marks(tokenizer)
    assert marked is not None
    assert marked.encode("lt lt").tokens == ["Ġlt", "Ġlt"]
    assert with_word_marks(marked) is None
    config = RobertaConfig(
        vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, pad_token_id=0
    )
    RobertaForMaskedLM(config).save_pretrained(tmp_path / "backbone")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<s>", unk_token="<s>")
    fast.save_pretrained(tmp_path / "backbone")
    model = new_model("splade", {"query": "bag-of-words"}, str(tmp_path / "backbone"))
    save_checkpoint(tmp_path / "model", model)
    assert load_encoder(str(tmp_path / "model"), "query").encode(["lt lt"]).row(0) == {"Ġlt": 1.0}
    document: Any = load_encoder(str(tmp_path / "model"), "document")
    assert document.tokenizer.tokenize("lt lt") == ["Ġlt", "Ġlt"]
