"""An architecture of an installed package is trained, encoded and indexed by the commands."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from encoders.models import ARCHITECTURES
from encoders.train import main as train
from learned_sparse.encode import __main__ as encode
from learned_sparse.index.build import build_index
from tests.encoders.training.conftest import tiny_backbone, tiny_collection

__all__ = ["tiny_backbone", "tiny_collection"]  # fixtures

GATED = '''
"""SPLADE whose weight of each term is multiplied by a learned gate."""

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from encoders.backbone.towers import Tower, pretrained_config
from encoders.models.splade import SpladeSettings


class TermGate(Tower):
    def __init__(self, size):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(size))

    vocabulary_size = property(lambda self: len(self.logits))

    def forward(self):
        return 2 * torch.sigmoid(self.logits)

    def new_parameters(self):
        return [self.logits]

    def save(self, folder):
        folder.mkdir(parents=True)
        save_file({"logits": self.logits.detach().cpu()}, folder / "gate.safetensors")

    @classmethod
    def load(cls, folder):
        logits = load_file(folder / "gate.safetensors")["logits"]
        gate = cls(len(logits))
        gate.logits.data.copy_(logits)
        return gate

    @classmethod
    def from_backbone(cls, folder, **_):
        return cls(pretrained_config(folder).vocab_size)


class GatedSplade(nn.Module):
    def __init__(self, splade, gate):
        super().__init__()
        self.splade, self.gate = splade, gate

    def forward(self, input_ids, attention_mask):
        return self.splade(input_ids, attention_mask) * self.gate()


class Gated(SpladeSettings):
    def networks(self, side):
        return {**super().networks(side), "term_gate": TermGate}

    def network_side(self, side, towers, vocabulary):
        return GatedSplade(super().network_side(side, towers, vocabulary), towers["term_gate"])
'''
RECIPE = """
model: gated
architecture: gated_splade
backbone: {backbone}
max_length: {{query: 8, document: 12}}
data: [{{collection: {collection}, run: {collection}/train.run}}]
precision: fp32
gradient_checkpointing: true
idf_bias: 0.5
stages: [{{name: ranking, steps: 3, batch_size: 8, learning_rate: 1.0e-3, learning_rates: {{head: 0.1}}}}]
"""


@pytest.mark.jvm
def test_a_package_with_an_architecture(
    tiny_backbone: Path, tiny_collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, model = tmp_path / "site", tmp_path / "model"
    (site / "gated_splade-1.0.dist-info").mkdir(parents=True)
    (site / "gated_splade.py").write_text(GATED)
    (site / "gated_splade-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: gated-splade\n")
    points = "[learned_sparse.architectures]\ngated_splade = gated_splade:Gated\n"
    (site / "gated_splade-1.0.dist-info" / "entry_points.txt").write_text(points)
    recipe = tmp_path / "gated.yaml"
    recipe.write_text(RECIPE.format(backbone=tiny_backbone, collection=tiny_collection))
    monkeypatch.syspath_prepend(site)
    assert "gated_splade" in set(ARCHITECTURES)
    words = f"--recipe {recipe} --output {model} --device cpu --quiet"
    assert train(words.split()) == 0
    words = f"--model gated --checkpoint {model} --device cpu --input {tiny_collection}/corpus.jsonl"
    assert encode.main([*words.split(), "--output", str(tmp_path / "vectors")]) == 0
    build_index(tmp_path / "vectors", tmp_path / "index")
    logits = load_file(model / "towers" / "term_gate" / "gate.safetensors")["logits"]
    assert logits.abs().max() > 0.05  # the head's learning rate
