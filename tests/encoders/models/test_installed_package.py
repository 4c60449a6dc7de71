"""An architecture of an installed package is trained, encoded and indexed by the commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from encoders.models import ARCHITECTURES

GATED = '''
"""SPLADE whose weight of each term is multiplied by a learned gate."""

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from encoders.backbone.pretrained import pretrained_config
from encoders.backbone.towers import LanguageModel, Tower
from encoders.models.architecture import Architecture
from encoders.models.splade import Splade, SpladeSettings


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
    def from_backbone(cls, name, *, revision=None, **_):
        return cls(pretrained_config(name, revision)[1].vocab_size)


class GatedSplade(nn.Module):
    def __init__(self, splade, gate):
        super().__init__()
        self.splade, self.gate = splade, gate

    def forward(self, input_ids, attention_mask):
        return self.splade(input_ids, attention_mask) * self.gate()


class Gated(Architecture):
    settings = SpladeSettings

    def networks(self, settings, side):
        return ("document", "term_gate")

    def network_side(self, settings, side, towers, vocabulary):
        return GatedSplade(Splade(settings, towers["document"], vocabulary), towers["term_gate"])

    def tower(self, settings, name):
        return TermGate if name == "term_gate" else LanguageModel

    def shared(self, settings):
        return True


GATED = Gated()
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


def test_a_package_with_an_architecture(tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site, collection = tmp_path / "site", tmp_path / "collection"
    (site / "gated_splade-1.0.dist-info").mkdir(parents=True)
    (site / "gated_splade.py").write_text(GATED)
    (site / "gated_splade-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: gated-splade\n")
    points = "[learned_sparse.architectures]\ngated_splade = gated_splade:GATED\n"
    (site / "gated_splade-1.0.dist-info" / "entry_points.txt").write_text(points)
    (collection / "qrels").mkdir(parents=True)
    texts = [
        "wing lift drag",
        "skin rash hives",
        "garbage collector memory",
        "weather in april",
        "hot summer",
        "new city",
    ]
    for name, kind in (("corpus", "d"), ("queries", "q")):
        lines = [json.dumps({"_id": f"{kind}{row}", "title": "", "text": text}) for row, text in enumerate(texts * 3)]
        (collection / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    judged = "".join(f"q{row}\td{row}\t1\n" for row in range(18))
    (collection / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    run = "".join(
        f"q{row} Q0 d{(row + rank) % 18} {rank + 1} {9 - rank} bm25\n" for row in range(18) for rank in range(4)
    )
    (collection / "train.run").write_text(run)
    recipe = tmp_path / "gated.yaml"
    recipe.write_text(RECIPE.format(backbone=tiny_bert, collection=collection))
    monkeypatch.syspath_prepend(site)
    assert "gated_splade" in set(ARCHITECTURES)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])}

    def run_command(*words: object) -> None:
        subprocess.run([sys.executable, "-m", *map(str, words)], check=True, env=environment, cwd=tmp_path)

    run_command("encoders.train", "--recipe", recipe, "--output", tmp_path / "model", "--device", "cpu", "--quiet")
    corpus, model = collection / "corpus.jsonl", tmp_path / "model"
    encode = ["learned_sparse.encode", "--model", "gated", "--checkpoint", model, "--input", corpus, "--device", "cpu"]
    run_command(*encode, "--output", tmp_path / "vectors")
    run_command("learned_sparse.index", "--input", tmp_path / "vectors", "--index", tmp_path / "index")
    from safetensors.torch import load_file

    logits = load_file(model / "towers" / "term_gate" / "gate.safetensors")["logits"]
    assert logits.abs().max() > 0.05  # the head's learning rate
