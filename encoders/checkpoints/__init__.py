"""Room encoders.checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from encoders.checkpoints.checkpoint import (
        LoadedModel,
        architecture_named,
        change_settings,
        default_quantizer,
        load_checkpoint,
        load_tokenizer,
        new_model,
        save_checkpoint,
        settings_of,
        tower_folder,
    )
    from encoders.checkpoints.encoder_options import changed_keys, check_sizes
    from encoders.checkpoints.hub import locate, require_safetensors
    from encoders.checkpoints.notes import FORMAT, BagNotes, CheckpointNotes, as_json, read_notes, write_notes
    from encoders.checkpoints.tokenizer_hash import tokenizer_sha256
    from encoders.checkpoints.vocabulary import Vocabulary, spellings, unwritable_ids

_MODULES = {
    "default_quantizer": "checkpoint",
    "new_model": "checkpoint",
    "tower_folder": "checkpoint",
    "change_settings": "checkpoint",
    "save_checkpoint": "checkpoint",
    "LoadedModel": "checkpoint",
    "settings_of": "checkpoint",
    "load_checkpoint": "checkpoint",
    "architecture_named": "checkpoint",
    "load_tokenizer": "checkpoint",
    "write_notes": "notes",
    "FORMAT": "notes",
    "BagNotes": "notes",
    "as_json": "notes",
    "read_notes": "notes",
    "CheckpointNotes": "notes",
    "unwritable_ids": "vocabulary",
    "spellings": "vocabulary",
    "Vocabulary": "vocabulary",
    "locate": "hub",
    "require_safetensors": "hub",
    "changed_keys": "encoder_options",
    "check_sizes": "encoder_options",
    "tokenizer_sha256": "tokenizer_hash",
}

__all__ = [
    "FORMAT",
    "BagNotes",
    "CheckpointNotes",
    "LoadedModel",
    "Vocabulary",
    "architecture_named",
    "as_json",
    "change_settings",
    "changed_keys",
    "check_sizes",
    "default_quantizer",
    "load_checkpoint",
    "load_tokenizer",
    "locate",
    "new_model",
    "read_notes",
    "require_safetensors",
    "save_checkpoint",
    "settings_of",
    "spellings",
    "tokenizer_sha256",
    "tower_folder",
    "unwritable_ids",
    "write_notes",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(name)
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
