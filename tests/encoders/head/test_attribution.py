"""Shares of tokens add up to the weights for every architecture, and equal plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import transformers
from torch import Tensor

from encoders.encoding.encoder import CheckpointEncoder
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import LoadedModel, save_checkpoint
from encoders.head.shares import Shares, merged_shares
from encoders.head.token_top_k import largest_shares
from encoders.models import SIDES
from learned_sparse.core.encoder import Side
from learned_sparse.core.records import EXPANDED
from tests.encoders.models import cases
from tests.encoders.models.cases import CASES, Case, name
from tests.encoders.models.heads import ADDED, inputs, untrained
from tests.tiny_models import TEXTS, VOCABULARY

SENTENCE = "hives of the skin, the hives"
Entries = dict[tuple[str, int, int], float]
"""``{(part, token, column): value}``"""


def explained(model: LoadedModel, side: Side, text: str) -> tuple[Tensor, list[Shares]]:
    """Weights ``(dimensions,)``, and the shares of the positive ones."""
    tokens, module = inputs(model, [text]), cast(Any, model.weighers[side])
    with torch.inference_mode():
        weights = module(*tokens)[0]
        return weights, module.shares(*tokens, weights.nonzero().flatten())


def entries(shares: list[Shares], *, gate: bool = False) -> Entries:
    return {
        (share.part, token, column): value
        for share in shares
        if share.gate == gate
        for column, (token, value, _) in share.entries()
    }


@pytest.mark.parametrize("case", CASES, ids=name)
def test_shares_add_up_to_the_weights(case: Case, tiny_bert: Path) -> None:
    model = untrained(*case, tiny_bert)
    texts = [TEXTS[0], "", f"hives of the skin{EXPANDED}what are hives of the skin"]
    for text, side in product(texts, SIDES):
        weights, shares = explained(model, side, text)
        total = torch.zeros_like(weights)
        for share in shares:
            assert not share.gate or case[0] == "sparterm"
            if not share.gate:
                total.index_add_(0, share.column, share.value.to(total.dtype))
        if case[1].get("mode") == "expansion-only":
            bag = model.weighers.query(*inputs(model, [text]))[0]
            weights = weights * (bag > 0)  # no token contributes to the weight 1 of an expanded term
        torch.testing.assert_close(total, weights)


def test_splade_by_loops(tiny_bert: Path) -> None:
    plain = transformers.AutoModelForMaskedLM.from_pretrained(tiny_bert).eval()
    for settings in cases.SPLADE:
        model = untrained("splade", settings, tiny_bert)
        ids, mask = inputs(model, [SENTENCE])
        with torch.no_grad():
            logits = plain(input_ids=ids, attention_mask=mask).logits[0].tolist()
        weights, shares = explained(model, "document", SENTENCE)
        f: Callable[[float], float] = math.log1p if model.settings.saturation == "log" else float
        expected: Entries = {}
        for column in weights.nonzero().flatten().tolist():
            contributions = {
                token: f(max(row[column], 0.0))
                for token, row in enumerate(logits)
                if model.settings.pool_special_tokens or ids[0, token].item() not in ADDED
            }
            if model.settings.pooling == "max":
                best = max(contributions, key=lambda token: contributions[token])
                contributions = {best: contributions[best]}
            expected |= {("", token, column): value for token, value in contributions.items() if value > 0}
        actual = entries(shares)
        assert expected
        assert actual == pytest.approx(expected, rel=1e-4, abs=1e-6), settings


def test_merged_by_hand() -> None:
    """The text ``5 7 5 7`` with the scores 1, -2, 3, 1: 7 has a negative mean."""
    ids, scores = torch.tensor([[5, 7, 5, 7]]), torch.tensor([[1.0, -2.0, 3.0, 1.0]])
    counted, both = torch.ones(1, 4, dtype=torch.bool), torch.tensor([5, 7])

    def merged(repeats: Any) -> Entries:
        return entries([merged_shares(scores, ids, counted, both, repeats)])

    assert merged("max") == {("", 2, 5): 3.0, ("", 3, 7): 1.0}
    assert merged("first") == {("", 0, 5): 1.0}
    assert merged("mean") == {("", 0, 5): 0.5, ("", 2, 5): 1.5}
    assert merged("sum") == {("", 0, 5): 1.0, ("", 2, 5): 3.0}
    assert merged_shares(scores, ids, counted, both[:0], "max").token.tolist() == []


def test_equal_winners_credit_the_first_token() -> None:
    values, columns = torch.tensor([[2.0, 1.0], [2.0, 1.0], [3.0, -1.0]]), torch.tensor([[4, 6], [4, 6], [9, 7]])
    shares = largest_shares(values, columns, torch.tensor([1, 2, 5]), torch.tensor([4, 6, 7]))
    assert entries([shares]) == {("", 1, 4): 2.0, ("", 1, 6): 1.0}


def test_the_shares_of_an_encoder_add_up_to_its_weights(tiny_bert: Path, tmp_path: Path) -> None:
    save_checkpoint(tmp_path, untrained("spade", {"k": 3}, tiny_bert))
    encoder = load_encoder(str(tmp_path), "document", dtype="fp32")
    assert isinstance(encoder, CheckpointEncoder)
    text = f"Hives, wingers!{EXPANDED}are hives"
    reading = encoder.explain(text)
    assert dict(reading.weights) == encoder.encode([text]).row(0)
    assert list(reading.weights.values()) == sorted(reading.weights.values(), reverse=True)
    assert reading.spelled
    assert (reading.truncated, encoder.explain("wing " * 99).truncated) == (False, True)
    assert [token[:4] for token in reading.tokens] == [
        ("[CLS]", 0, 0, None), ("hives", 0, 5, 0), (",", 5, 6, 0), ("wing", 7, 11, 0), ("##er", 11, 13, 0),
        ("##s", 13, 14, 0), ("!", 14, 15, 0), ("[SEP]", 0, 0, None), ("are", 0, 3, 1), ("hives", 4, 9, 1),
        ("[SEP]", 0, 0, None),
    ]  # fmt: skip
    assert [token.word for token in reading.tokens] == [None, 0, 1, 2, 2, 2, 3, None, 0, 1, None]
    for term, weight in reading.weights.items():
        sources = reading.sources[term]
        assert sum(share.weight for share in sources.shares) == pytest.approx(weight, rel=1e-5, abs=1e-6)
        assert sources.gate == ()
        assert sources.probability is None


@pytest.mark.parametrize("gate_pool", ["relu_sum", "max", "raw_max"])
def test_sparterms_probabilities(gate_pool: str, tiny_bert: Path, tmp_path: Path) -> None:
    """They are computed from the shares in the gate's logits."""
    model = untrained("sparterm", {"gate_pool": gate_pool, "threshold": 0.6}, tiny_bert)
    save_checkpoint(tmp_path, model)
    encoder: Any = load_encoder(str(tmp_path), "document", dtype="fp32")
    reading = encoder.explain(SENTENCE)
    document: Any = model.weighers.document
    with torch.inference_mode():
        logits = document.gate(*inputs(model, [SENTENCE]))[0]
    expanded = [term for term in reading.weights if term not in reading.literal]
    assert expanded
    for term in expanded:
        expected = logits[VOCABULARY.index(term)].sigmoid().item()
        assert reading.sources[term].probability == pytest.approx(expected, rel=1e-4)
    assert all(reading.sources[term].probability is None for term in reading.weights if term in reading.literal)
