"""A folder that is just a masked-LM, read as the published naver/splade checkpoints are meant."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from encoders.backbone import read_config
from encoders.models import ARCHITECTURES, SIDES, SpladeSettings

_LONGEST = 256  # tokens, of queries and documents (both papers)


def as_splade(folder: Path) -> dict[str, Any]:
    """The fields of ``CheckpointNotes``, of SPLADE with max pooling."""
    config = read_config(folder, folder)
    settings = SpladeSettings(pooling="max")
    length = min(_LONGEST, getattr(config, "max_position_embeddings", _LONGEST))
    return {
        "architecture": "splade",
        "settings": dataclasses.asdict(settings),
        "vocabulary_size": config.vocab_size,
        "max_length": dict.fromkeys(SIDES, length),
        "quantizers": {side: {"scale": ARCHITECTURES["splade"].scale(settings, side), "bits": None} for side in SIDES},
    }
