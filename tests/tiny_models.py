"""Random masked-LMs of a few kilobytes, saved as Hugging Face folders, so that tests run the real loading code."""

from __future__ import annotations

import importlib.metadata
import shlex
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from tokenizers import BertWordPieceTokenizer
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    DistilBertConfig,
    DistilBertForMaskedLM,
)
from transformers import PreTrainedTokenizerFast as Tokenizer

from encoders.export.exporting import BIN_COMMAND

_TEXT = """
the of and in to is are can be a with your for on by that this from as it cause causes caused allergic
reaction reactions skin rash hives sign signs pregnancy pregnant during symptoms women python garbage
collector frees memory cycle cycles reference references object objects list returns string file opens read
write path folder system temperature april bali weather rain season summer hot wind tunnel wing lift drag flow
boundary layer heat transfer new york city
"""
WORDS = _TEXT.split()
SUFFIXES = ["##s", "##ed", "##ing", "##er", "##ness", "##ion", "##al", "##ly", "##ment", "##able"]
SPECIAL = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = string.ascii_lowercase + string.digits
VOCABULARY = list(
    dict.fromkeys([*SPECIAL, *LETTERS, *".,?!-'", *(f"##{letter}" for letter in LETTERS), *SUFFIXES, *WORDS])
)

TEXTS = [
    "Hives are caused by allergic reactions of the skin.",
    "can hives be a sign of pregnancy?",
    "",
    "the garbage collector frees memory; the memory of cycles of references, of the objects in the cycles",
    "snow ☃ in April",
    "wing",
]
MANY_TEXTS = [f"{text} {'wing lift drag ' * (7 * number % 5)}" for number, text in enumerate(TEXTS * 4)]
_MODELS: dict[str, Any] = {"bert": BertForMaskedLM, "headless": BertModel, "distilbert": DistilBertForMaskedLM}


def save_tiny(kind: str, folder: Path, seed: int = 0) -> Path:
    """A ``bert``, ``distilbert``, or ``headless`` BERT (no masked-LM head) with two layers of hidden size 16."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer().save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: Any = _MODELS[kind](_config(kind))
        if kind != "headless":
            bias = model.get_output_embeddings().bias
            torch.nn.init.normal_(bias, mean=-1.0, std=1.0)  # some terms active, most not
        model.eval().save_pretrained(folder)
    return folder


def save_classifier(folder: Path, labels: int) -> Path:
    """A random BERT of two layers with a classifier."""
    tokenizer().save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(labels)
        config: Any = _config()
        config.num_labels = labels
        BertForSequenceClassification(config).eval().save_pretrained(folder)
    return folder


def for_pyserini(folder: Path) -> str:
    """``folder``, with the file of weights that Pyserini 2 reads, made by the command in the notes of exports."""
    if importlib.metadata.version("pyserini").startswith("2."):
        _, flag, code = shlex.split(BIN_COMMAND)
        subprocess.run([sys.executable, flag, code], cwd=folder, check=True)
    return str(folder)


def tokenizer() -> Tokenizer:
    """A BERT tokenizer for ``VOCABULARY``."""
    backend = BertWordPieceTokenizer(vocab={term: number for number, term in enumerate(VOCABULARY)}, lowercase=True)
    special = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    names = {f"{name}_token": token for name, token in special.items()}
    return Tokenizer(tokenizer_object=backend._tokenizer, model_max_length=64, **names)


def _config(kind: str = "bert") -> BertConfig | DistilBertConfig:
    common: dict[str, Any] = {
        "vocab_size": len(VOCABULARY), "max_position_embeddings": 64, "initializer_range": 0.35,
    }  # fmt: skip
    if kind == "distilbert":
        return DistilBertConfig(dim=16, n_layers=2, n_heads=2, hidden_dim=32, **common)
    return BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, **common)
