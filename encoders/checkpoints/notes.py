"""What a checkpoint folder says about itself: all but weights and tokenizer, readable without torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from learned_sparse.core import LearnedSparseError, Quantizer, parse, read_json, write_json

NOTES = "learned_sparse.json"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class BagNotes:
    """A side that is a bag of words: all that its vectors need besides the tokenizer."""

    weighting: Literal["binary", "tf"]
    excluded: tuple[int, ...]
    """Token ids that are never in the bag."""
    scoring: Literal["impact", "bm25"]
    scale: float | None
    """From weights to impacts once settings are changed; ``None``: to be calibrated."""
    changeable: tuple[str, ...] = ()
    """Settings of the model that may be changed; none of them changes the bag."""
    query_only_settings: tuple[str, ...] = ()
    """Those of them that leave the stored quantiser as it is."""


@dataclass(frozen=True, kw_only=True)
class CheckpointNotes:
    """The content of ``learned_sparse.json``."""

    format: int
    architecture: str
    settings: dict[str, Any]
    vocabulary_size: int
    max_length: dict[str, int]
    """Tokens, special ones included: ``{"query": 256, "document": 256}``."""
    quantizers: dict[str, Any]
    """``{"query": {"scale": 100.0, "bits": null}, "document": ...}``; null: to be calibrated."""
    recipe: Any = None
    training: Any = None
    bags: dict[str, BagNotes] = field(default_factory=dict)
    """For sides that learn nothing, so that they need neither torch nor transformers."""

    def quantizer(self, side: str) -> Quantizer | None:
        """The quantiser of one side; None if it has to be calibrated first."""
        content = self.quantizers.get(side)
        return None if content is None else Quantizer.from_json(content)


def read_notes(folder: Path) -> CheckpointNotes:
    """The notes of a checkpoint folder; those of SPLADE-max for a plain masked-LM folder (which takes transformers)."""
    path = folder / NOTES
    if path.exists():
        notes = parse(CheckpointNotes, read_json(path), str(path))
    elif (folder / "config.json").exists():
        from encoders.checkpoints.plain_masked_lm import as_splade

        notes = CheckpointNotes(format=FORMAT, **as_splade(folder))
    else:
        raise LearnedSparseError(f"{folder}: no checkpoint: neither {NOTES} nor the config.json of a masked-LM")
    if notes.format != FORMAT:
        raise LearnedSparseError(f"{path}: format {notes.format}, this version reads {FORMAT}; upgrade learned_sparse")
    return notes


def write_notes(folder: Path, notes: CheckpointNotes) -> None:
    """Write them, whole or not at all; without ``bags`` where there are none, as earlier versions expect."""
    content = dataclasses.asdict(notes)
    if not notes.bags:
        del content["bags"]
    write_json(folder / NOTES, content)


def as_json(settings: Any) -> dict[str, Any]:
    """A settings dataclass as JSON has it: tuples are lists."""
    return {key: _plain(value) for key, value in dataclasses.asdict(settings).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
