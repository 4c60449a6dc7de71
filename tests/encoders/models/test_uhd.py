"""UHD-BERT against plain loops over its hidden states; its components and changeable settings."""

from __future__ import annotations

from math import gcd
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from encoders.encoding.model import LoadedModel, new_model
from encoders.models import SIDES
from encoders.models.uhd import UHDSettings
from learned_sparse.core.encoder import Side
from tests.encoders.models import cases
from tests.encoders.models.heads import ADDED, inputs, weigh
from tests.reference.uhd import uhd
from tests.tiny_models import TEXTS

SMALL = cases.SMALLEST["uhd"]


def new_uhd(backbone: Path, **settings: Any) -> LoadedModel:
    model = new_model("uhd", {**SMALL, **settings}, str(backbone))
    model.weighers.eval()
    return model


def reference_weights(model: LoadedModel, side: Side, text: str) -> Tensor:
    """Weights of one text by ``tests.reference.uhd``."""
    parsed: UHDSettings = model.settings
    ids, mask = inputs(model, [text])
    layers: list[Any] = []
    for layer in parsed.layers:
        tower = model.towers["joint" if parsed.encoders == "joint" else f"bucket-{layer}"]
        with torch.no_grad():
            outputs = tower.model(ids, attention_mask=mask, output_hidden_states=True).hidden_states[layer][0]
        head = tower.head[str(layer)]
        layers.append((outputs.tolist(), head.weight.tolist(), head.bias.tolist()))
    states, weights, biases = zip(*layers, strict=True)
    query = side == "query"
    return torch.tensor(
        uhd(
            states,
            weights,
            biases,
            ids[0].tolist(),
            k=parsed.k,
            normalize=parsed.normalize,
            keep=parsed.query_k if query else parsed.document_k,
            scope=parsed.query_k_scope if query else parsed.document_k_scope,
            factors=parsed.bucket_weights if query else None,
            binarize=parsed.binarize,
            not_pooled=[] if parsed.pool_special_tokens else ADDED,
        )
    )


@pytest.mark.parametrize("settings", cases.UHD, ids=str)
def test_equals_plain_loops_over_hidden_states(settings: dict[str, Any], tiny_bert: Path) -> None:
    model = new_uhd(tiny_bert, **settings)
    for side in SIDES:
        weights = weigh(model.weighers[side], model)  # in one batch, with padding
        expected = torch.stack([reference_weights(model, side, text) for text in TEXTS])
        torch.testing.assert_close(weights, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoders", ["separate", "joint"])
def test_each_tower_runs_once_and_separate_towers_stop_at_their_layer(encoders: str, tiny_bert: Path) -> None:
    model = new_uhd(tiny_bert, encoders=encoders)
    calls = []
    for name, tower in model.towers.items():
        tower.register_forward_hook(lambda *_, name=name: calls.append(name))
    weigh(model.weighers.document, model)
    depths = {name: len(tower.model.encoder.layer) for name, tower in model.towers.items()}
    assert calls == list(depths)
    assert depths == ({"joint": 2} if encoders == "joint" else {"bucket-1": 1, "bucket-2": 2})


@pytest.mark.parametrize("encoders", ["separate", "joint"])
def test_queries_skip_buckets_with_weight_0(encoders: str, tiny_bert: Path) -> None:
    model = new_uhd(tiny_bert, encoders=encoders, bucket_weights=[0, 2])
    calls = []
    for layer, tower in zip((1, 2), list(model.towers.values()) * (1 + (encoders == "joint")), strict=True):
        tower.head[str(layer)].register_forward_hook(lambda *_, layer=layer: calls.append(layer))
    weigh(model.weighers.query, model)
    assert calls == [2]
    weigh(model.weighers.document, model)
    assert calls == [2, 1, 2]  # documents keep all buckets, so an index works with any weights
    query_towers = {name: model.towers[name] for name in model.settings.towers("query")}
    assert list(query_towers) == (["joint"] if encoders == "joint" else ["bucket-2"])
    query = model.settings.weigher("query", query_towers, model.vocabulary).eval()
    assert torch.equal(weigh(query, model), weigh(model.weighers.query, model))


@pytest.mark.parametrize("encoders", ["separate", "joint"])
def test_components_are_models_of_one_bucket(encoders: str, tiny_bert: Path) -> None:
    both: dict[str, Any] = {"encoders": encoders, "query_k": 6, "document_k": 9, "binarize": True}
    model = new_uhd(tiny_bert, **both, bucket_weights=[2, 3])
    for layer in (1, 2):
        single = new_uhd(tiny_bert, **both, layers=[layer])
        for tower in single.towers.values():
            source = model.towers["joint" if encoders == "joint" else f"bucket-{layer}"]
            tower.head.load_state_dict(source.head.state_dict(), strict=False)
        for side in SIDES:
            component = model.weighers[side].components[f"b{layer}"]  # type: ignore[index]
            assert torch.equal(weigh(component, model), weigh(single.weighers[side], single)), (side, layer)
    assert list(model.weighers.query.components) == ["b1", "b2"]  # type: ignore[arg-type]


def test_mixtures_are_bucket_weights_without_a_common_factor() -> None:
    mixtures = UHDSettings(layers=(1, 2)).mixtures()
    assert [tuple(changes["bucket_weights"]) for changes, _ in mixtures] == [
        (a, b) for a in range(4) for b in range(4) if gcd(a, b) == 1
    ]
    # 4 ** 6 combinations without all zeros and without multiples by 2 or 3
    assert len(UHDSettings().mixtures()) == 4**6 - 1 - 2 * (2**6 - 1)
    assert UHDSettings(layers=(12,)).mixtures() == ()
