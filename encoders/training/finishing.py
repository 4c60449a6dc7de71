"""From a trained model to the one that is stored: with the settings that training found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from encoders.checkpoints import Vocabulary, as_json
from encoders.encoding import LoadedModel, architecture_named, default_quantizer
from encoders.models import SIDES
from learned_sparse.core import parse


def adopt(model: LoadedModel, mixture: Mapping[str, Any] | None, device: torch.device) -> None:
    """Put what training ``learned`` and the best ``mixture`` into the model's settings, and build it anew on them.

    The towers stay the same; a model that found nothing stays as it is.
    """
    learned: dict[str, Any] = getattr(model.weighers.document, "learned", dict)()
    found = {**learned, **(mixture or {})}
    if not found:
        return
    family, before = architecture_named(model.architecture), as_json(model.settings)
    settings = parse(family.settings, {**before, **as_plain(found)}, f"{model.architecture}: found in training")
    size = next(iter(model.towers.values())).vocabulary_size
    model.settings = settings
    model.weighers = family.build(settings, model.towers, Vocabulary.from_tokenizer(model.tokenizer, size))
    model.weighers.to(device)
    model.quantizers = {side: default_quantizer(family, settings, side) for side in SIDES}


def as_plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them: tuples are lists."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
