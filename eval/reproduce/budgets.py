"""What a model was trained with and for how long, for the pages that show what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


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
