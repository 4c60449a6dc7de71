"""The forward pass without padding equals Hugging Face's, for every text, layer and kind of model that it knows."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

from encoders.backbone.hidden_states import HiddenStates
from encoders.backbone.masked_lm import Tower
from encoders.backbone.packed_forward import PackedForward
from encoders.backbone.packed_layers import _SHORT

WORDS, LONGEST = 50, 64
SIZES = {
    "one token each": [1, 1, 1],
    "odd, some equal": [37, 21, 21, 21, 20, 17, 16, 16, 9, 5, 2, 1],
    "in no order": [3, 40, 3, 18, 40, 1],
    "no padding": [23, 23, 23],
    "as long as can be": [LONGEST],
    "one without tokens": [19, 0, 4],
    "no tokens at all": [0, 0],
}
KINDS = ("bert", "distilbert")


def model(kind: str, *, alone: bool, **changes: Any) -> Any:
    """Random, with biases and norms that are not those it starts with, in evaluation mode."""
    torch.manual_seed(5)
    if kind == "bert":
        sizes = {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40}
    else:
        sizes = {"dim": 24, "n_layers": 3, "n_heads": 3, "hidden_dim": 40}
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=WORDS, max_position_embeddings=LONGEST, initializer_range=0.3, **(sizes | changes)
    )
    cls: Any = transformers.AutoModel if alone else transformers.AutoModelForMaskedLM
    made = cls.from_config(config).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return made


def inputs(lengths: list[int]) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    mask = (torch.arange(max(1, *lengths)) < torch.tensor(lengths)[:, None]).long()
    return torch.randint(0, WORDS, mask.shape) * mask, mask


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", SIZES.values(), ids=SIZES)
def test_states_before_the_decoder(kind: str, lengths: list[int]) -> None:
    tower = Tower(model(kind, alone=False)).eval()
    ids, mask = inputs(lengths)
    expected = tower(ids, mask).detach()  # with gradients: Hugging Face's own
    with torch.inference_mode():
        found = tower(ids, mask)
        assert not found[~mask.bool()].any()
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("layers", [(3,), (1, 3), (2, 0, 1)])
def test_states_of_layers(kind: str, lengths: list[int], layers: tuple[int, ...]) -> None:
    encoder = model(kind, alone=True)
    tower = HiddenStates(encoder, torch.nn.Identity(), layers).eval()
    ids, mask = inputs(lengths)
    whole = encoder(ids, mask, output_hidden_states=True).hidden_states
    with torch.no_grad():
        found = tower(ids, mask)
    for layer, state in zip(layers, found if isinstance(found, tuple) else (found,), strict=True):
        torch.testing.assert_close(state[mask.bool()], whole[layer][mask.bool()], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mask_with_holes(kind: str) -> None:
    tower = Tower(model(kind, alone=False)).eval()
    ids, mask = inputs([_SHORT + 9, 8])
    mask[0, 3:5] = mask[1, 0] = 0
    expected = tower(ids, mask).detach()
    with torch.no_grad():
        found = tower(ids, mask)
    torch.testing.assert_close(found[mask.bool()], expected[mask.bool()], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
def test_other_activations(activation: str) -> None:
    tower = Tower(model("bert", alone=False, hidden_act=activation)).eval()
    ids, mask = inputs([30, 7])
    expected = tower(ids, mask).detach()
    with torch.no_grad():
        torch.testing.assert_close(tower(ids, mask)[mask.bool()], expected[mask.bool()], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_numbers(dtype: torch.dtype) -> None:
    tower = Tower(model("bert", alone=False)).eval()
    ids, mask = inputs([40, 40, 18, 7])
    exact = copy.deepcopy(tower).double()(ids, mask).detach()[mask.bool()]
    with torch.no_grad():
        found = tower.to(dtype)(ids, mask)[mask.bool()]
    assert found.dtype == dtype
    near = 1 - torch.cosine_similarity(found.double(), exact, dim=1).min()
    assert near < (1e-12 if dtype == torch.float64 else 1e-3)


def test_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    tower = Tower(model("bert", alone=False)).eval()
    ids, mask = inputs([4, 2])
    calls: list[int] = []
    before = PackedForward.__call__

    def counted(*given: Any) -> list[Tensor]:
        calls.append(1)
        return before(*given)

    monkeypatch.setattr(PackedForward, "__call__", counted)
    tower(ids, mask)  # gradients
    with torch.no_grad():
        tower.train()(ids, mask)  # dropout
        tower.eval()
        with torch.autocast("cpu", torch.bfloat16):
            tower(ids, mask)
        assert calls == []
        tower(ids, mask)
        assert calls == [1]
        assert tower.packed is not None
        assert not tower.packed.suits(torch.empty(1, 1, device="meta"))  # as on a GPU


def test_other_models_keep_their_own() -> None:
    """A subclass may compute something else, as RoBERTa's positions do."""

    class Own(transformers.BertForMaskedLM):
        pass

    config = model("bert", alone=False).config
    assert PackedForward.of(transformers.BertForMaskedLM(config)) is not None
    assert PackedForward.of(Own(config)) is None
    config.is_decoder = True
    assert PackedForward.of(transformers.BertForMaskedLM(config)) is None
    roberta = transformers.RobertaConfig(
        vocab_size=WORDS, hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    tower = Tower(transformers.RobertaForMaskedLM(roberta)).eval()
    assert tower.packed is None
    with torch.no_grad():
        assert tower(*inputs([4, 2])).shape == (2, 4, 24)


def test_both_modes_without_gradients_in_turns() -> None:
    tower = Tower(model("bert", alone=False)).eval()
    ids, mask = inputs([30, 12])
    with torch.inference_mode():
        first = tower(ids, mask)
    with torch.no_grad():
        assert torch.equal(tower(ids, mask), first)


def test_a_copy_reads_its_own_weights() -> None:
    tower = Tower(model("bert", alone=False)).eval()
    ids, mask = inputs([6, 3])
    with torch.no_grad():
        before = tower(ids, mask)
        other = copy.deepcopy(tower)
        for parameter in other.model.base_model.parameters():
            parameter.mul_(1.5)
        assert not torch.allclose(other(ids, mask), before)
        assert torch.equal(tower(ids, mask), before)
