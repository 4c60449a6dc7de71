"""What a checkpoint folder holds besides weights, read without torch: notes, tokenizer and vocabulary.

Start reading in ``notes``. ``hub`` finds the folder of a model, and ``foreign`` reads folders of other tools.
``encoders.models`` builds, loads and saves the model itself.
"""

from __future__ import annotations

from encoders.checkpoints.catalogue import (
    Published,
    catalogue,
    default_checkpoint,
    published,
    published_settings,
    resolve_checkpoint,
)
from encoders.checkpoints.foreign import UNICOIL_HEAD, read_table
from encoders.checkpoints.hub import locate, read_config, refuse_code, require_safetensors
from encoders.checkpoints.notes import (
    FORMAT,
    MAX_LENGTH,
    NOTES,
    TABLE,
    BagNotes,
    CheckpointNotes,
    as_json,
    changed_keys,
    check_sizes,
    hash_files,
    is_sparse_encoder,
    read_notes,
    write_notes,
)
from encoders.checkpoints.tokenizer import (
    TOKENIZER,
    Vocabulary,
    check_vocabulary,
    pair_of,
    read_tokenizer,
    spellings,
    tokenize_texts,
    tokenizer_sha256,
    unwritable_ids,
)

__all__ = [
    "FORMAT",
    "MAX_LENGTH",
    "NOTES",
    "TABLE",
    "TOKENIZER",
    "UNICOIL_HEAD",
    "BagNotes",
    "CheckpointNotes",
    "Published",
    "Vocabulary",
    "as_json",
    "catalogue",
    "changed_keys",
    "check_sizes",
    "check_vocabulary",
    "default_checkpoint",
    "hash_files",
    "is_sparse_encoder",
    "locate",
    "pair_of",
    "published",
    "published_settings",
    "read_config",
    "read_notes",
    "read_table",
    "read_tokenizer",
    "refuse_code",
    "require_safetensors",
    "resolve_checkpoint",
    "spellings",
    "tokenize_texts",
    "tokenizer_sha256",
    "unwritable_ids",
    "write_notes",
]
