"""uniCOIL for Pyserini: the folder of its ``UniCoilQueryEncoder`` and ``UniCoilDocumentEncoder``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import save

from encoders.checkpoints.notes import UNICOIL_HEAD
from encoders.encoding.model import LoadedModel
from encoders.export.layouts import PYSERINI_NOTES, write_tokenizer
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write, write_json

_ENCODER = "bert."
"""Prefix of the tensors of the encoder."""
_KNOWN = {"head": "linear", "repeats": "max", "query_repeats": "sum"}
_QUERY_TOKENS = 128
"""Tokens of a query, fixed in Pyserini's code."""


def write_unicoil(folder: Path, model: LoadedModel) -> list[str]:
    """One encoder with its head, or ``document`` and ``query`` if they differ. Returns notes for the user.

    Raises if Pyserini's classes would compute other weights than ``model``.
    """
    for name, value in _KNOWN.items():
        if (given := getattr(model.settings, name)) != value:
            raise LearnedSparseError(f"{name}: {given}: Pyserini's uniCOIL knows {value} only")
    if model.settings.query == "bag-of-words":
        raise LearnedSparseError("query: bag-of-words: Pyserini's uniCOIL has a network for queries")
    for tower in model.towers.values():
        if (kind := tower.model.config.model_type) != "bert":
            raise LearnedSparseError(
                f"a backbone of type {kind}: Pyserini's uniCOIL is a BERT; train one, or search with "
                "python -m learned_sparse.pyserini, which knows all encoders of this package"
            )
    settings, notes = model.settings, list(PYSERINI_NOTES)
    if settings.query == "same":
        _encoder(folder, model, model.towers["document"])
    else:
        for side in ("document", "query"):
            _encoder(folder / side, model, model.towers[side])
    if settings.bow_special_tokens not in ("separators", "all"):
        notes.append("Pyserini weighs [SEP] too; that term of a query matches nothing in documents encoded here")
    if model.max_length["query"] != _QUERY_TOKENS:
        notes.append(f"Pyserini truncates queries at {_QUERY_TOKENS} tokens; here at {model.max_length['query']}")
    if settings.expanded:
        notes.append("encode documents with expansions here: Pyserini puts only new tokens of them into the text")
    return notes


def _encoder(folder: Path, model: LoadedModel, tower: Any) -> None:
    folder.mkdir(exist_ok=True)
    tensors = {f"{_ENCODER}{name}": tensor for name, tensor in tower.model.state_dict().items()}
    tensors |= {f"{UNICOIL_HEAD}{name}": tensor for name, tensor in tower.head.state_dict().items()}
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic_write(folder / "model.safetensors") as file:
        file.write(save(content, metadata={"format": "pt"}))
    write_json(folder / "config.json", {**tower.model.config.to_dict(), "architectures": ["UniCoilEncoder"]})
    write_tokenizer(folder, model, max(model.max_length.values()))
