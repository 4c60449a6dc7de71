"""What a model was trained with and for how long, for the pages that show what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from learned_sparse.core import checkpoint_folder


def budget(model: str) -> dict[str, Any]:
    """Of a finished checkpoint in the home folder, as JSON values."""
    return budget_of(checkpoint_folder(model))


def budget_of(checkpoint: Path) -> dict[str, Any]:
    """Of a finished checkpoint, as JSON values."""
    from encoders.checkpoints import read_notes

    notes = read_notes(checkpoint)
    recipe = notes.recipe
    return {
        "processor": notes.training["device"],
        "threads": notes.training["threads"],
        "seconds": round(notes.training["seconds"]),
        "backbone": recipe["backbone"],
        "layers": recipe["num_hidden_layers"],
        "max_length": recipe["max_length"],
        "stages": [{key: stage[key] for key in ("name", "steps", "batch_size")} for stage in recipe["stages"]],
    }


def stages(given: Mapping[str, Any]) -> str:
    """The stages of a ``budget`` in words.

    >>> gate, rank = {"name": "gate", "steps": 25, "batch_size": 16}, {"name": "rank", "steps": 9, "batch_size": 4}
    >>> stages({"stages": [gate, rank]})
    'gate: 25 steps of 16 queries, then rank: 9 steps of 4 queries'
    """
    return ", then ".join(
        f"{stage['name']}: {stage['steps']} steps of {stage['batch_size']} queries" for stage in given["stages"]
    )


def threads(given: Mapping[str, Any]) -> str:
    """The threads of a ``budget`` in words.

    >>> threads({"threads": 1}), threads({"threads": 2})
    ('1 thread', '2 threads')
    """
    return f"{given['threads']} thread{'' if given['threads'] == 1 else 's'}"
