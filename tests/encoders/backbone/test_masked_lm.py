"""A tower equals the full model, before and after saving."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from encoders.backbone import pretrained
from encoders.backbone.towers import LanguageModel
from learned_sparse.core.errors import LearnedSparseError


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
    monkeypatch.setattr(pretrained, "_GROUP", 100)
    sizes.clear()
    together = states_and_gradients()
    assert sizes == [(30, 32)]
    torch.testing.assert_close(grouped, together)


class Code:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("created-by-a-pickle",)


def test_pickled_weights_are_read_without_running_code(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(tiny_bert / "config.json", tmp_path)
    torch.save(load_file(tiny_bert / "model.safetensors"), tmp_path / "pytorch_model.bin")
    expected, tower = LanguageModel.load(tiny_bert), LanguageModel.load(tmp_path)
    torch.testing.assert_close(tower.state_dict(), expected.state_dict(), rtol=0, atol=0)
    torch.save({"weight": torch.ones(1), "code": Code()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(LearnedSparseError, match=r"code in a pickle is never run.*--revision"):
        LanguageModel.load(tmp_path)
    assert not (tmp_path / "created-by-a-pickle").exists()


def test_a_model_without_trained_head(tiny_headless: Path) -> None:
    with pytest.raises(LearnedSparseError, match=r"not a trained masked-LM .*encoders.train"):
        LanguageModel.load(tiny_headless)


def test_a_causal_model_is_refused(tmp_path: Path) -> None:
    config = transformers.GPT2Config(vocab_size=30, n_embd=8, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(LearnedSparseError, match="no encoder yet"):
        LanguageModel.load(tmp_path)
