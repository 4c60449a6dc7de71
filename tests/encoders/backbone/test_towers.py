"""Groups of similar length, and backbones whose parts differ from BERT's: no biases, decoder LMs, adapters, pickles."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from encoders.backbone import towers
from encoders.backbone.device import prepare_network
from encoders.backbone.hidden_states import HiddenStatesKind
from encoders.backbone.towers import Attention, LanguageModel
from encoders.models.bags import TermTable
from learned_sparse.core.errors import LearnedSparseError
from tests.encoders.backbone.test_backbone_types import IDS, MASK, random_model


def states(tower: LanguageModel, ids: torch.Tensor = IDS, mask: torch.Tensor = MASK) -> torch.Tensor:
    with torch.no_grad():
        result: torch.Tensor = tower.eval()(ids, mask)
    return result[mask.bool()]


@pytest.fixture(params=["qwen3", "llama"])
def decoder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A tiny decoder LM."""
    random_model(request.param, transformers.AutoModelForCausalLM).save_pretrained(tmp_path / "decoder")
    return tmp_path / "decoder"


def test_a_bias_added_to_a_decoder_without_bias_is_saved(tmp_path: Path) -> None:
    random_model("eurobert").save_pretrained(tmp_path / "plain")
    tower = LanguageModel.load(tmp_path / "plain")
    assert tower.decoder.bias is None
    biases = torch.linspace(-1, 1, tower.vocabulary_size)
    assert tower.add_to_bias(biases)
    tower.save(tmp_path / "saved")
    loaded = LanguageModel.load(tmp_path / "saved")
    assert torch.equal(loaded.decoder.bias, biases)
    assert isinstance(loaded.decoder.bias, torch.nn.Parameter)


@pytest.mark.parametrize("kind", ["bert", "modernbert"])
def test_an_added_head_matches_words(kind: str, tiny_headless: Path, tmp_path: Path) -> None:
    folder = tiny_headless if kind == "bert" else tmp_path / "plain"
    if kind == "modernbert":
        random_model(kind, transformers.AutoModel).save_pretrained(folder)
    tower = LanguageModel.from_backbone(folder, output_bias=-2.5)
    with torch.no_grad():
        body = transformers.AutoModel.from_pretrained(folder).eval()
        hidden = body(input_ids=IDS, attention_mask=MASK).last_hidden_state[MASK.bool()]
    assert torch.cosine_similarity(states(tower), hidden - hidden.mean(-1, keepdim=True), dim=-1).min() > 0.9
    if kind == "bert":  # GELU(x + 3) is almost x + 3; LayerNorm removes the 3
        expected = torch.nn.functional.layer_norm(torch.nn.functional.gelu(hidden + 3), hidden.shape[-1:], eps=1e-12)
        torch.testing.assert_close(states(tower), expected)
    assert tower.decoder.bias.eq(-2.5).all()
    assert tower.decoder.weight is tower.model.get_input_embeddings().weight
    assert all(parameter.requires_grad for parameter in tower.parameters())
    tower.save(tmp_path / "saved")
    assert torch.equal(states(LanguageModel.load(tmp_path / "saved")), states(tower))


def test_a_weight_of_a_term_returns_from_below_zero() -> None:
    table = TermTable(2)
    optimizer = torch.optim.SGD(table.parameters(), lr=1.0)
    with torch.no_grad():
        table.weights.copy_(torch.tensor([-0.5, 0.5]))
    assert table().tolist() == [0.0, 0.5]
    (-table().sum()).backward()
    optimizer.step()
    assert table().tolist() == [0.5, 1.5]
    assert not table.recompute_layers()


@pytest.mark.parametrize("attention", ["bidirectional", "echo"])
def test_every_token_of_a_decoder_lm_sees_the_whole_text(decoder: Path, attention: Attention, tmp_path: Path) -> None:
    tower = LanguageModel.from_backbone(decoder, attention=attention)
    changed = IDS.clone()
    changed[0, 4] = 30
    assert not torch.allclose(states(tower, changed)[0], states(tower)[0])
    text = IDS[1:, :3]  # alone, and padded beside a longer text
    torch.testing.assert_close(states(tower, text, torch.ones_like(text)), states(tower)[5:], rtol=1e-4, atol=1e-4)
    assert tower.longest_input == (32 if attention == "bidirectional" else 16)
    tower.save(tmp_path / "saved")
    loaded = LanguageModel.load(tmp_path / "saved")
    assert torch.equal(states(loaded), states(tower))
    prepare_network(loaded.model)
    torch.testing.assert_close(states(loaded), states(tower), rtol=1e-4, atol=1e-4)


def test_a_causal_decoder_lm_equals_transformers(decoder: Path) -> None:
    tower = LanguageModel.from_backbone(decoder, attention="causal")
    with torch.no_grad():
        expected = transformers.AutoModelForCausalLM.from_pretrained(decoder)(input_ids=IDS, attention_mask=MASK).logits
    logits = tower.decoder(states(tower))
    torch.testing.assert_close(logits, expected[MASK.bool()], rtol=1e-4, atol=1e-4)
    with pytest.raises(LearnedSparseError, match="no encoder yet"):
        LanguageModel.load(decoder)


def test_adapters_are_trained_and_merged_when_saved(decoder: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    tower = LanguageModel.from_backbone(decoder, lora={"rank": 2, "alpha": 4})
    before = states(tower)
    assert torch.equal(before, states(LanguageModel.from_backbone(decoder)))
    trained = tower.trainable_parameters()
    assert 0 < len(trained) < len(list(tower.parameters()))
    with torch.no_grad():
        for parameter in trained:
            parameter.add_(0.1)
    tower.save(tmp_path / "saved")
    assert not torch.allclose(states(tower), before)
    loaded = LanguageModel.load(tmp_path / "saved")
    torch.testing.assert_close(states(loaded), states(tower), rtol=1e-4, atol=1e-4)
    assert not any("lora" in name for name, _ in loaded.named_parameters())


@pytest.mark.parametrize("side", ["right", "left"])
def test_texts_of_a_training_step_run_in_groups_of_similar_length(
    side: str, tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [*range(1, 30), 0]
    mask = torch.tensor([[1] * length + [0] * (32 - length) for length in lengths])
    mask = mask if side == "right" else mask.flip(1)
    inputs = torch.randint(5, 40, mask.shape, generator=torch.Generator().manual_seed(0)), mask
    tower = LanguageModel.load(tiny_bert).eval().double()
    sizes: list[tuple[int, int]] = []
    tower.model.register_forward_pre_hook(
        lambda *call: sizes.append(tuple(call[2]["input_ids"].shape)), with_kwargs=True
    )

    def states_and_gradients() -> list[torch.Tensor]:
        states = tower(*inputs)
        assert states.shape[:2] == mask.shape
        tower.zero_grad()
        loss = (states * mask[:, :, None]).square().sum()
        loss.backward()
        gradients = [each.grad for each in tower.parameters() if each.grad is not None]
        return [states.detach()[mask.bool()], *gradients]

    grouped = states_and_gradients()
    assert sizes == ([(15, 14), (15, 29)] if side == "right" else [(30, 32)])
    monkeypatch.setattr(towers, "_GROUP", 100)
    sizes.clear()
    together = states_and_gradients()
    assert sizes == [(30, 32)]
    torch.testing.assert_close(grouped, together)


@pytest.mark.parametrize("kind", [LanguageModel, HiddenStatesKind(lambda size: torch.nn.Linear(size, 1))])
def test_both_passes_of_gradient_caching_have_the_same_dropout(kind: Any, tiny_bert: Path) -> None:
    mask = (torch.arange(32) < torch.arange(1, 31)[:, None]).long()
    tower, passes = kind.from_backbone(tiny_bert).train(), list[torch.Tensor]()
    for has_gradient in (False, True):
        with torch.random.fork_rng(), torch.set_grad_enabled(has_gradient):
            torch.manual_seed(0)
            result = tower(mask * 7, mask)
        passes.append((result if torch.is_tensor(result) else result[0])[mask.bool()])
    torch.testing.assert_close(*passes)


def test_pickled_weights(tiny_bert: Path, tmp_path: Path) -> None:
    shutil.copy(tiny_bert / "config.json", tmp_path)
    torch.save(load_file(tiny_bert / "model.safetensors"), tmp_path / "pytorch_model.bin")
    expected, tower = LanguageModel.load(tiny_bert), LanguageModel.load(tmp_path)
    torch.testing.assert_close(tower.state_dict(), expected.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["bert", "distilbert"])
def test_fewer_layers(kind: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(f"tiny_{kind}")
    full, shortened = LanguageModel.from_backbone(folder), LanguageModel.from_backbone(folder, num_hidden_layers=1)
    assert sum(p.numel() for p in shortened.parameters()) < sum(p.numel() for p in full.parameters())
    assert shortened.model.config.num_hidden_layers == 1
    assert not torch.allclose(states(shortened), states(full))
