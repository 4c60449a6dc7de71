"""Models in memory and their sides as encoders of text.

Start reading in ``loading`` (``load_encoder``) and ``encoder`` (``CheckpointEncoder``); ``model`` creates, saves and
loads whole models. Names are loaded at first use: a side that learns nothing is encoded without torch and transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from learned_sparse.core.lazy import lazy_names

if TYPE_CHECKING:
    from encoders.encoding.batches import BatchSize
    from encoders.encoding.encoder import CheckpointEncoder
    from encoders.encoding.loading import load_encoder
    from encoders.encoding.model import (
        LoadedModel,
        architecture_named,
        change_settings,
        default_quantizer,
        join_sides,
        load_checkpoint,
        new_model,
        save_checkpoint,
    )

__all__ = [
    "BatchSize",
    "CheckpointEncoder",
    "LoadedModel",
    "architecture_named",
    "change_settings",
    "default_quantizer",
    "join_sides",
    "load_checkpoint",
    "load_encoder",
    "new_model",
    "save_checkpoint",
]

_MODULES = {"BatchSize": "batches", "CheckpointEncoder": "encoder", "load_encoder": "loading"}
__getattr__, __dir__ = lazy_names(__name__, {name: f"{__name__}.{_MODULES.get(name, 'model')}" for name in __all__})
