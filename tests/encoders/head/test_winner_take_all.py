"""The winner-take-all layer: its fixed sparse mask, its winners and their gradients."""

from __future__ import annotations

import math

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies
from torch import Tensor

from encoders.head import token_top_k
from encoders.head.token_top_k import WinnerTakeAll, unpack


@pytest.fixture(autouse=True)
def _several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_top_k, "_MASK_ROWS", 23)


def new_layer(hidden: int = 21, dimensions: int = 60, sparsity: float = 0.7) -> WinnerTakeAll:
    torch.manual_seed(0)
    return WinnerTakeAll(hidden, dimensions, sparsity)


def inputs_seen(layer: WinnerTakeAll) -> Tensor:
    return unpack(layer.mask, layer.weight.shape[1])


@hypothesis.given(strategies.integers(0, 5), strategies.integers(1, 40), strategies.integers(0, 9))
def test_unpack_is_the_inverse_of_numpys_packbits(rows: int, columns: int, seed: int) -> None:
    bits = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed)) < 0.5
    packed = torch.from_numpy(np.packbits(bits.numpy(), axis=1, bitorder="little"))
    assert torch.equal(unpack(packed, columns), bits)


@pytest.mark.parametrize(("sparsity", "inputs"), [(0.7, 6), (0.5, 10), (0.0, 21)])
def test_each_dimension_has_the_same_number_of_random_inputs(sparsity: float, inputs: int) -> None:
    layer = new_layer(sparsity=sparsity)
    mask = inputs_seen(layer)
    assert mask.sum(1).eq(inputs).all()
    assert torch.equal(layer.weight != 0, mask)
    assert len(mask.unique(dim=0)) > 50 or sparsity == 0
    assert mask.any(0).all()


def test_the_bound_of_initial_weights_depends_on_the_inputs_seen() -> None:
    layer = new_layer(hidden=768, dimensions=50)
    bound = 1 / math.sqrt(230)  # 0.3 * 768
    for values in (layer.weight[inputs_seen(layer)], layer.bias):
        assert values.abs().max() <= bound
        assert values.abs().max() > 0.9 * bound
        assert abs(values.mean()) < 0.2 * bound


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_masked_weights_stay_zero(kind: type[torch.optim.Adam]) -> None:
    layer = new_layer()
    hidden = ~inputs_seen(layer)
    before = layer.weight.detach().clone()
    optimizer = kind(layer.parameters(), lr=0.1, weight_decay=0.5)
    for step in range(5):
        optimizer.zero_grad()
        layer(torch.randn(8, 21, generator=torch.Generator().manual_seed(step)), 60)[0].square().sum().backward()
        assert layer.weight.grad is not None
        assert layer.weight.grad[hidden].eq(0).all()
        assert layer.weight.grad[~hidden].ne(0).all()
        optimizer.step()
    assert layer.weight[hidden].eq(0).all()
    assert not torch.isclose(layer.weight, before)[~hidden].any()
