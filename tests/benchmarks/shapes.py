"""Untrained models with the size and sparsity of real ones, a published one, and passages, all without a download."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForMaskedLM

from encoders.backbone.device import has_bf16
from encoders.backbone.towers import LanguageModel, load_tokenizer
from encoders.checkpoints.hub import locate
from encoders.head.vocabulary_head import pool
from learned_sparse.collections.pydoc import LIBRARY, docstrings, source_files

SEED = 0
ACTIVE = 190
"""Mean number of active terms per passage, within a factor of two of trained SPLADE models."""
_SHARPNESS = 4.0  # LayerNorm weight of the head; spreads the impacts as in trained models

PRECISIONS = ("fp32", "bf16") if has_bf16(torch.device("cpu")) else ("fp32",)
"""Data types that this machine computes fast."""

WORDS, PROSE = range(30, 121), 0.93
"""Words of a passage, and share of letters and spaces: no tables, no code."""
MAX_LENGTH = 256


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Model size; ``make(folder)`` writes a masked-LM and its tokenizer, ``save`` sets the output bias."""

    name: str
    make: Callable[[Path], None]
    trained: bool = False
    """Whether the model is trained, so that its output bias needs no correction."""

    def save(self, folder: Path) -> Path:
        """Write the model; an untrained one with the output bias that gives passages about ``ACTIVE`` terms each."""
        self.make(folder)
        if self.trained:
            return folder
        tower, tokenizer, texts = LanguageModel.load(folder), load_tokenizer(folder), passages(16)
        padded = tokenizer(texts, truncation=True, max_length=MAX_LENGTH, padding=True, return_tensors="pt")
        mask, no_bias = padded["attention_mask"], torch.zeros(len(tower.decoder.weight))
        with torch.no_grad():
            states = tower.eval()(padded["input_ids"], mask)
            largest = pool(states, mask, tower.decoder.weight, no_bias, pooling="max", relu=False)
            threshold = largest.flatten().kthvalue(largest.numel() - ACTIVE * len(texts)).values
            tower.decoder.bias.fill_(-threshold.item())
        tower.save(folder)
        return folder


def minilm(folder: Path) -> None:
    """all-MiniLM-L6-v2 (6 layers, hidden size 384) with a head tied to its embeddings."""
    LanguageModel.from_backbone(locate("minilm")).save(folder)
    load_tokenizer(locate("minilm")).save_pretrained(folder)


def random_bert(folder: Path, **size: Any) -> None:
    """Random BERT of BERT-base's size (12 layers, hidden size 768) or another, with the uncased vocabulary."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = BertForMaskedLM(BertConfig(**size))
    torch.nn.init.constant_(model.cls.predictions.transform.LayerNorm.weight, _SHARPNESS)
    model.save_pretrained(folder)
    load_tokenizer(locate("minilm")).save_pretrained(folder)


def splade_tiny(folder: Path) -> None:
    """splade-tiny, without the other files of its package."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((locate("splade-tiny") / name).read_bytes())


SMALL = Shape(name="6 layers, 384", make=minilm)
BASE = Shape(name="BERT-base, 12 layers, 768", make=random_bert)
PUBLISHED = Shape(name="splade-tiny, 2 layers, 128", make=splade_tiny, trained=True)


def passages(number: int, seed: int = 0) -> list[str]:
    """``number`` passages from the running Python's documentation, drawn without replacement.

    Lengths spread as MS MARCO's do (56 words, 82 tokens). Another version of Python gives other passages. If there
    are too few, they are repeated in another order.
    """
    every, chosen, source = _every_passage(), list[str](), random.Random(seed)
    while len(chosen) < number:
        chosen += source.sample(every, min(number - len(chosen), len(every)))
    return chosen


@cache
def _every_passage() -> list[str]:
    texts = [" ".join(text.split()) for _, text in docstrings(LIBRARY, source_files(LIBRARY))]
    texts = [text for text in texts if len(text.split()) in WORDS]
    return [text for text in texts if sum(letter.isalpha() or letter == " " for letter in text) >= PROSE * len(text)]
