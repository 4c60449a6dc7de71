"""Feed-forward blocks in slices: the same states and gradients, and nothing wide is held."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from encoders.backbone import sliced_feed_forward
from encoders.backbone.hidden_states import hidden_states_kind
from encoders.backbone.masked_lm import Tower
from tests.tiny_models import TEXTS


@pytest.fixture(params=["tiny_bert", "tiny_distilbert"])
def folder(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["masked-LM", "states of layers"])
def tower(folder: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """In training mode without dropout, and with slices that do not divide the rows."""
    monkeypatch.setattr(sliced_feed_forward, "_ROWS", 7)
    whole = request.param == "masked-LM"
    loaded: Any = (
        Tower.load(folder) if whole else hidden_states_kind(lambda _: nn.Identity(), [1, 2]).from_backbone(str(folder))
    )
    for module in loaded.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return loaded.double().train()


def inputs(folder: Path) -> Any:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer(TEXTS, padding=True, return_tensors="pt", return_token_type_ids=False)


def states_and_gradients(tower: Any, folder: Path) -> tuple[Tensor, dict[str, Tensor]]:
    """All states, and of all parameters the gradient of a random sum of them."""
    tower.zero_grad()
    states = tower(**inputs(folder))
    states = torch.stack(states) if isinstance(states, tuple) else states
    generator = torch.Generator().manual_seed(5)
    (states * torch.randn(states.shape, generator=generator, dtype=states.dtype)).sum().backward()
    return states, {name: value.grad.clone() for name, value in tower.named_parameters() if value.grad is not None}


@contextmanager
def as_it_comes(*_: object) -> Any:
    yield


def test_states_and_gradients_are_the_models_own(tower: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    states, found = states_and_gradients(tower, folder)
    monkeypatch.setattr(sliced_feed_forward.SlicedFeedForward, "forward", as_it_comes)
    expected_states, expected = states_and_gradients(tower, folder)
    torch.testing.assert_close(states, expected_states, rtol=1e-12, atol=1e-12)
    assert found.keys() == expected.keys()
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-9, atol=1e-12, msg=name)


def test_parameters_that_do_not_learn_get_no_gradient(tower: Any, folder: Path) -> None:
    _, expected = states_and_gradients(tower, folder)
    frozen = {name for name in expected if ".0." in name}
    for name, value in tower.named_parameters():
        value.requires_grad_(name not in frozen)
    _, found = states_and_gradients(tower, folder)
    assert found.keys() == expected.keys() - frozen
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=1e-9, atol=1e-12, msg=name)


def test_nothing_of_the_inside_is_held(tower: Any, folder: Path) -> None:
    inner = {layer.up.out_features for layer in known(tower)}
    widths: Counter[int] = Counter()

    def note(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, nn.Parameter):
            widths[tensor.shape[-1] if tensor.ndim else 0] += 1
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        tower(**inputs(folder))
    assert widths
    assert not inner & widths.keys()


def test_the_model_is_left_as_it_was(tower: Any, folder: Path) -> None:
    tower(**inputs(folder))
    with torch.no_grad():
        tower(**inputs(folder))
    assert not [name for name, module in tower.named_modules() if "forward" in vars(module)]
    with pytest.raises(RuntimeError), tower._feed_forward.forward(torch.ones(1, 2)):
        raise RuntimeError
    assert not [name for name, module in tower.named_modules() if "forward" in vars(module)]


def test_autocast_is_left_to_torch(tower: Any, folder: Path) -> None:
    tower.float()
    with torch.autocast("cpu", torch.bfloat16):
        found = tower(**inputs(folder))
    states = found[-1] if isinstance(found, tuple) else found
    states.float().sum().backward()
    assert all(torch.isfinite(value.grad).all() for value in tower.parameters() if value.grad is not None)


def known(tower: Any) -> Any:
    from encoders.backbone.packed_forward import known_layers

    return known_layers(tower.model)
