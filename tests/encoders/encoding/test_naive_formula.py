"""Weights in fp32 equal each paper's formula, computed from the hidden states of transformers.

The formula reads one text at a time, all its tokens times the whole vocabulary, in float64 from the states on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from encoders.encoding.encoder import CheckpointEncoder
from encoders.encoding.loading import load_encoder
from encoders.encoding.model import LoadedModel, save_checkpoint
from learned_sparse.core.quantize import Quantizer
from tests.encoders.models.cases import SMALLEST
from tests.encoders.models.heads import untrained
from tests.tiny_models import TEXTS, VOCABULARY

LONG = "the memory of cycles of references, of the objects in the cycles; "
ALL_TEXTS = [*TEXTS, *(LONG * times for times in (1, 2, 2, 4)), "lift drag " * 9, "wing", "rain in April"]
SPECIAL = [VOCABULARY.index(word) for word in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
UNUSED = [column for column, word in enumerate(VOCABULARY) if word.startswith("[unused")]
SCALE = 100.0


def states(tower: Any, ids: Tensor, layer: int = -1) -> Tensor:
    """Hidden states ``(tokens, hidden)``."""
    tower.eval()
    with torch.no_grad():
        if hasattr(tower, "decoder"):
            hidden = tower.model(input_ids=ids[None], attention_mask=torch.ones_like(ids)[None]).logits
        else:
            hidden = tower.model(input_ids=ids[None], output_hidden_states=True).hidden_states[layer]
    state: Tensor = hidden[0].detach().double()
    return state


def logits(tower: Any, ids: Tensor) -> Tensor:
    weight, bias = (parameter.detach().double() for parameter in (tower.decoder_weight, tower.decoder_bias))
    scores: Tensor = states(tower, ids) @ weight.T + bias
    return scores


def splade_max(model: LoadedModel, ids: Tensor) -> Tensor:
    return logits(model.towers["document"], ids).relu().log1p().amax(0)


def splade_sum(model: LoadedModel, ids: Tensor) -> Tensor:
    return logits(model.towers["document"], ids).relu().log1p().sum(0)


def sparterm(model: LoadedModel, ids: Tensor) -> Tensor:
    gate = logits(model.towers["gate"], ids).relu().sum(0).sigmoid() >= model.settings.threshold
    gate[[token for token in ids.tolist() if token not in SPECIAL]] = True  # G_le: the words of the text are added
    gate[SPECIAL + UNUSED] = False
    weights: Tensor = logits(model.towers["importance"], ids).relu().sum(0) * gate
    return weights


def spade(model: LoadedModel, ids: Tensor) -> Tensor:
    tower = model.towers["weighting"]
    scores = tower.head.double()(states(tower, ids)).relu().squeeze(1).detach()
    tower.head.float()
    weighting, expansion = torch.zeros(2, len(VOCABULARY), dtype=torch.float64)
    for token, score in zip(ids.tolist(), scores.tolist(), strict=True):
        if token not in SPECIAL:
            weighting[token] = max(float(weighting[token]), score)
    for row in logits(model.towers["expansion"], ids):
        values, columns = row.topk(model.settings.k)
        expansion[columns] = expansion[columns].maximum(values)
    weights: Tensor = (1 - model.settings.alpha) * weighting + model.settings.alpha * expansion
    return weights


def uhd(model: LoadedModel, ids: Tensor) -> Tensor:
    buckets = []
    for layer in model.settings.layers:
        tower = model.towers[f"bucket-{layer}"]
        head, bucket = tower.head[str(layer)], torch.zeros(model.settings.dimensions, dtype=torch.float64)
        for row in states(tower, ids, layer) @ head.weight.detach().double().T + head.bias.detach().double():
            values, columns = row.topk(model.settings.k)
            bucket[columns] = bucket[columns].maximum(values)
        buckets.append(functional.normalize(bucket, dim=0))
    return torch.cat(buckets)


FORMULAS: dict[str, tuple[str, dict[str, Any], Callable[[LoadedModel, Tensor], Tensor]]] = {
    "splade-max": ("splade", {"pooling": "max"}, splade_max),
    "splade-sum": ("splade", {"pooling": "sum"}, splade_sum),
    "sparterm": ("sparterm", {}, sparterm),
    "spade": ("spade", {}, spade),
    "uhd": ("uhd", {**SMALLEST["uhd"], "normalize": "bucket"}, uhd),
}


@pytest.mark.parametrize("backbone", ["bert", "distilbert"])
@pytest.mark.parametrize("name", FORMULAS)
def test_weights_and_integers(name: str, backbone: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    architecture, settings, formula = FORMULAS[name]
    model = untrained(architecture, settings, request.getfixturevalue(f"tiny_{backbone}"))
    save_checkpoint(tmp_path, model)
    encoder = load_encoder(str(tmp_path), "document", device="cpu", dtype="fp32", batch_size="150t")
    assert isinstance(encoder, CheckpointEncoder)
    batch = encoder.encode(ALL_TEXTS)
    weights = np.zeros((len(ALL_TEXTS), len(encoder.terms)))
    weights[np.repeat(np.arange(len(ALL_TEXTS)), np.diff(batch.indptr)), batch.indices] = batch.values
    ids = [model.tokenizer(text, return_tensors="pt", truncation=True)["input_ids"][0] for text in ALL_TEXTS]
    expected = torch.stack([formula(model, sequence) for sequence in ids]).numpy()
    assert expected.max() > 0.2
    assert 0.01 < (expected > 0).mean() < 0.95  # some terms have weight, others none
    np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-5)
    impacts, _ = Quantizer(SCALE).quantize(batch)
    integers = np.zeros_like(weights)
    integers[np.repeat(np.arange(len(ALL_TEXTS)), np.diff(impacts.indptr)), impacts.indices] = impacts.values
    difference = np.abs(integers - np.rint(expected * SCALE))
    assert difference.max() <= 1
    assert (difference == 0).mean() > 0.999  # differences occur only near a rounding boundary
