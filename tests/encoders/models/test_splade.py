"""SPLADE by hand and against plain loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from encoders.checkpoints import Vocabulary
from encoders.encoding import new_model
from encoders.models import ARCHITECTURES, Splade, SpladeSettings
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.models import cases
from tests.reference.splade import splade
from tests.tiny_models import TEXTS, VOCABULARY


class ThreeWords(nn.Module):
    """Stands for a tower: ids 0, 1, 2 have the logits of the rows below for the words 0, 1, 2."""

    rows = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0], [-4.0, 1.0, 2.0]])

    def __init__(self) -> None:
        super().__init__()
        self.decoder_weight = torch.eye(3)
        self.decoder_bias = torch.zeros(3)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return self.rows[input_ids]


PENCIL = [
    ({}, [math.log(2) + math.log(4), 0.0, math.log(1.5)]),  # log(1+1) + log(1+3); log 1 + log 1; log(1+.5) + log 1
    ({"saturation": "none"}, [4.0, 0.0, 0.5]),
    ({"pooling": "max"}, [math.log(4), 0.0, math.log(1.5)]),
    ({"pooling": "max", "saturation": "none"}, [3.0, 0.0, 0.5]),
    ({"expansion": "lexical"}, [math.log(8), 0.0, 0.0]),
    ({"block_special_terms": True}, [0.0, 0.0, math.log(1.5)]),  # word 0 is special here
    ({"pool_special_tokens": False}, [math.log(4), 0.0, 0.0]),
    ({"expansion": "lexical", "bow_special_tokens": "none"}, [0.0, 0.0, 0.0]),
]


@pytest.mark.parametrize(("settings", "expected"), PENCIL)
def test_by_hand(settings: dict[str, Any], expected: list[float]) -> None:
    """The text "0 1", padded: word 1 is in the text but no logit for it is positive."""
    vocabulary = Vocabulary(["zero", "one", "two"], special_ids=(0,), unknown_id=None, unused_ids=())
    if settings == {"expansion": "lexical"}:
        settings = {**settings, "bow_special_tokens": "all"}
    tower: Any = ThreeWords()
    module = Splade(SpladeSettings(**settings), tower, vocabulary)
    weights = module(torch.tensor([[0, 1, 2]]), torch.tensor([[1, 1, 0]]))
    torch.testing.assert_close(weights, torch.tensor([expected]))


@pytest.mark.parametrize("settings", cases.SPLADE, ids=str)
def test_equals_plain_loops_over_the_models_own_logits(settings: dict[str, Any], tiny_bert: Path) -> None:
    model = new_model("splade", settings, str(tiny_bert))
    plain = transformers.AutoModelForMaskedLM.from_pretrained(tiny_bert).eval()
    parsed = model.settings
    ids = {word: VOCABULARY.index(word) for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    added = [token for word, token in ids.items() if word != "[UNK]"]
    unused = [token for token, word in enumerate(VOCABULARY) if word.startswith("[unused")]
    for text in TEXTS:
        inputs = model.tokenizer([text], return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            logits = plain(**inputs).logits[0].tolist()
            weights = model.weighers.eval().document(inputs["input_ids"], inputs["attention_mask"])[0]
        expected = splade(
            logits,
            inputs["input_ids"][0].tolist(),
            pooling=parsed.pooling,
            saturation=parsed.saturation,
            lexical=parsed.expansion == "lexical",
            not_pooled=[] if parsed.pool_special_tokens else added,
            not_in_bag={"all": [], "unknown": added, "none": list(ids.values())}[parsed.bow_special_tokens],
            blocked=[*ids.values(), *unused] if parsed.block_special_terms else [],
        )
        torch.testing.assert_close(weights, torch.tensor(expected), rtol=1e-4, atol=1e-4)


def test_defaults_are_the_papers() -> None:
    settings = SpladeSettings()
    assert (settings.pooling, settings.saturation, settings.expansion, settings.query) == ("sum", "log", "full", "same")
    assert settings.pool_special_tokens
    assert not settings.block_special_terms


def test_factors_of_the_published_export() -> None:
    scale = ARCHITECTURES["splade"].scale
    assert scale(SpladeSettings(), "document") == scale(SpladeSettings(), "query") == 100
    assert scale(SpladeSettings(query="bag-of-words"), "query") == 1
    assert scale(SpladeSettings(saturation="none"), "document") is None


def test_a_misspelt_setting(tiny_bert: Path) -> None:
    with pytest.raises(LearnedSparseError, match="did you mean 'pooling'"):
        new_model("splade", {"poling": "max"}, str(tiny_bert))
    with pytest.raises(LearnedSparseError, match="did you mean 'splade'"):
        new_model("splada", {}, str(tiny_bert))
