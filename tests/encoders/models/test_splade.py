"""SPLADE computed by hand and by plain loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from encoders.checkpoints.tokenizer import Vocabulary
from encoders.encoding.model import new_model
from encoders.models.splade import Splade, SpladeSettings
from tests.encoders.models import cases
from tests.encoders.models.heads import ADDED, NOT_IN_BAG, SPECIAL, UNUSED, LogitTable, inputs
from tests.reference.splade import splade
from tests.tiny_models import TEXTS

BY_HAND = [
    ({}, [math.log(2) + math.log(4), 0.0, math.log(1.5)]),  # log(1+1) + log(1+3); log 1 + log 1; log(1+.5) + log 1
    ({"saturation": "none"}, [4.0, 0.0, 0.5]),
    ({"pooling": "max"}, [math.log(4), 0.0, math.log(1.5)]),
    ({"pooling": "max", "saturation": "none"}, [3.0, 0.0, 0.5]),
    ({"expansion": "lexical", "bow_special_tokens": "all"}, [math.log(8), 0.0, 0.0]),
    ({"block_special_terms": True}, [0.0, 0.0, math.log(1.5)]),  # word 0 is special here
    ({"pool_special_tokens": False}, [math.log(4), 0.0, 0.0]),
    ({"expansion": "lexical", "bow_special_tokens": "none"}, [0.0, 0.0, 0.0]),
]


@pytest.mark.parametrize(("settings", "expected"), BY_HAND)
def test_by_hand(settings: dict[str, Any], expected: list[float]) -> None:
    """The text is "0 1" with padding. Word 1 is in the text, but none of its logits is positive."""
    vocabulary = Vocabulary(["zero", "one", "two"], special_ids=(0,), unknown_id=None, unused_ids=())
    tower: Any = LogitTable([1.0, -2.0, 0.5], [3.0, 0.0, -1.0], [-4.0, 1.0, 2.0])
    module = Splade(SpladeSettings(**settings), tower, vocabulary)
    assert (module.unblocked is not None) == ("block_special_terms" in settings)  # else nothing is multiplied
    weights = module(torch.tensor([[0, 1, 2]]), torch.tensor([[1, 1, 0]]))
    torch.testing.assert_close(weights, torch.tensor([expected]))


@pytest.mark.parametrize("settings", cases.SPLADE, ids=str)
def test_equals_plain_loops_over_its_logits(settings: dict[str, Any], tiny_bert: Path) -> None:
    model = new_model("splade", settings, str(tiny_bert))
    plain = transformers.AutoModelForMaskedLM.from_pretrained(tiny_bert).eval()
    parsed = model.settings
    for text in TEXTS:
        ids, mask = inputs(model, [text])
        with torch.no_grad():
            logits = plain(ids, attention_mask=mask).logits[0].tolist()
            weights = model.weighers.eval().document(ids, mask)[0]
        expected = splade(
            logits,
            ids[0].tolist(),
            pooling=parsed.pooling,
            saturation=parsed.saturation,
            lexical=parsed.expansion == "lexical",
            not_pooled=[] if parsed.pool_special_tokens else ADDED,
            not_in_bag=NOT_IN_BAG[parsed.bow_special_tokens],
            blocked=[*SPECIAL.values(), *UNUSED] if parsed.block_special_terms else [],
        )
        torch.testing.assert_close(weights, torch.tensor(expected), rtol=1e-4, atol=1e-4)
