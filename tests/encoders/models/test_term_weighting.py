"""uniCOIL, DeepImpact, TILDEv2 and DeepCT against plain loops, and uniCOIL against Pyserini's own encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from encoders.models import SIDES
from encoders.models.objectives import Labels, Tokens
from encoders.models.term_weighting import TermRecall
from encoders.models.token_weights import two_layer_head
from learned_sparse.core.encoder import Side
from tests.encoders.models import cases
from tests.encoders.models.heads import NOT_IN_BAG, PAIRS, SPECIAL, inputs, scores_of, untrained
from tests.reference.term_weighting import bag, recall_frequencies, recall_loss, term_weights
from tests.tiny_models import TEXTS, VOCABULARY

FAMILY = [case for case in cases.CASES if case[0] in {"unicoil", "deepimpact", "tildev2"}]


@pytest.mark.parametrize(("architecture", "settings"), FAMILY, ids=map(cases.name, FAMILY))
def test_both_sides_equal_plain_loops(architecture: str, settings: dict[str, Any], tiny_bert: Path) -> None:
    model = untrained(architecture, settings, tiny_bert)
    parsed, not_in_bag = model.settings, NOT_IN_BAG[model.settings.bow_special_tokens]

    def weights_of(ids: Tensor, side: Side) -> list[float]:
        if side == "query" and parsed.query == "bag-of-words":
            return bag(ids.tolist(), len(VOCABULARY), weighting=parsed.query_weighting, not_in_bag=not_in_bag)
        return term_weights(
            scores_of(model.towers[next(iter(parsed.networks(side)))], ids),
            ids.tolist(),
            len(VOCABULARY),
            repeats=parsed.repeats if side == "document" else parsed.query_repeats,
            not_in_bag=not_in_bag,
            separator=SPECIAL["[SEP]"] if parsed.separators else None,
            relu=parsed.activation == "relu",
        )

    for side in SIDES:
        texts = PAIRS if side == "document" and parsed.uses_expanded else TEXTS
        with torch.no_grad():
            weights = model.weighers[side](*inputs(model, texts, pad_to_multiple_of=16))
        expected = torch.tensor([weights_of(inputs(model, [text])[0][0], side) for text in texts])
        torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-5)


def test_heads_are_initialised_like_bert_layers() -> None:
    torch.manual_seed(0)
    head: Any = two_layer_head(400, 0.1)
    weights, biases = head[1].weight, (head[1].bias, head[3].bias)
    assert weights.std().item() == pytest.approx(0.02, rel=0.05)
    assert all(bias is not None and not bias.any() for bias in biases)


RECALL = [case[1] for case in cases.CASES if case[0] == "deepct"]
SPLIT = [*TEXTS, "hiveses causing skinness skin hives", "reactioning hives ofs of"]


@pytest.mark.parametrize("settings", RECALL, ids=str)
def test_deepct_equals_plain_loops(settings: dict[str, Any], tiny_bert: Path) -> None:
    model = untrained("deepct", settings, tiny_bert)
    texts = [*SPLIT, *PAIRS] if settings.get("expanded") else SPLIT
    with torch.no_grad():
        weights = model.weighers.document(*inputs(model, texts, pad_to_multiple_of=16))
    seen = set()
    for row, text in zip(weights, texts, strict=True):
        ids = inputs(model, [text])[0][0]
        scores, root = scores_of(model.towers["document"], ids), settings.get("smoothing") == "sqrt"
        scale = settings.get("scale", 100.0)
        expected = recall_frequencies(scores, ids.tolist(), VOCABULARY, list(SPECIAL.values()), scale, root)
        torch.testing.assert_close(row, torch.tensor(expected), rtol=1e-4, atol=1e-4)
        seen |= {term for term, weight in zip(VOCABULARY, expected, strict=True) if weight}
    assert any(term.startswith("##") for term in seen)


def test_deepct_learns_the_words_of_queries(tiny_bert: Path) -> None:
    model = untrained("deepct", {}, tiny_bert)
    queries = ["hives skin", "objects memory", "reactioning", "rain", "snow", "of hives", "hives reactioning", "zz"]
    document: Any = model.weighers.document
    objective = TermRecall(document)
    outputs = objective.outputs(Tokens(*inputs(model, queries)), Tokens(*inputs(model, [*SPLIT, "unused negative"])))
    losses = objective.losses(outputs, Labels(torch.zeros(0)))["recall_loss"]
    ids = [[inputs(model, [text])[0][0].tolist() for text in texts] for texts in (SPLIT, queries)]
    scores = [scores_of(model.towers["document"], torch.tensor(document)) for document in ids[0]]
    expected = recall_loss(scores, ids[0], ids[1], VOCABULARY, list(SPECIAL.values()))
    assert losses.shape == (len(SPLIT),)
    torch.testing.assert_close(losses.mean(), torch.tensor(expected), rtol=1e-4, atol=1e-5)
    losses.mean().backward()
    assert all(parameter.grad is not None for parameter in model.towers["document"].head.parameters())
    half = {name: value[:4] for name, value in outputs.items()}
    assert not torch.isclose(objective.losses(half, Labels(torch.zeros(0)))["recall_loss"].mean(), losses.mean())
