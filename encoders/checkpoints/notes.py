"""The file ``learned_sparse.json`` of a checkpoint: everything but weights and tokenizer, readable without torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from encoders.checkpoints.hub import read_config
from learned_sparse.core import LearnedSparseError, Quantizer, parse, read_json, write_json

NOTES = "learned_sparse.json"
FORMAT = 1
MAX_LENGTH = 256
"""Default maximum length in tokens, of queries and documents (both papers)."""


@dataclass(frozen=True, kw_only=True)
class BagNotes:
    """A side that is a bag of words: everything its vectors depend on besides the tokenizer."""

    weighting: Literal["binary", "tf"]
    excluded: tuple[int, ...]
    """Token ids that are never in the bag."""
    scoring: Literal["impact", "bm25"]
    scale: float | None
    """Factor from weights to impacts after settings are changed; ``None``: calibrate."""
    changeable: tuple[str, ...] = ()
    """Settings of the model that may be changed; none of them changes the bag."""
    query_only_settings: tuple[str, ...] = ()
    """Those of ``changeable`` that leave the stored quantizer valid."""


@dataclass(frozen=True, kw_only=True)
class CheckpointNotes:
    """The content of ``learned_sparse.json``."""

    format: int
    architecture: str
    settings: dict[str, Any]
    vocabulary_size: int
    max_length: dict[str, int]
    """Tokens per side, special tokens included: ``{"query": 256, "document": 256}``."""
    quantizers: dict[str, Any]
    """``{"query": {"scale": 100.0, "bits": null}, "document": ...}``; null: to be calibrated."""
    recipe: Any = None
    training: Any = None
    bags: dict[str, BagNotes] = field(default_factory=dict)
    """Sides that learn nothing; they are encoded without torch and transformers."""

    def quantizer(self, side: str) -> Quantizer | None:
        """The quantizer of one side; None if it has to be calibrated first."""
        content = self.quantizers.get(side)
        return None if content is None else Quantizer.from_json(content)


def read_notes(folder: Path) -> CheckpointNotes:
    """The notes of a checkpoint folder; a plain masked-LM folder is described as SPLADE with max pooling."""
    path = folder / NOTES
    if path.exists():
        notes = parse(CheckpointNotes, read_json(path), str(path))
    elif (folder / "config.json").exists():
        notes = _plain_masked_lm(folder)
    else:
        raise LearnedSparseError(f"{folder}: no checkpoint: neither {NOTES} nor the config.json of a masked-LM")
    if notes.format != FORMAT:
        raise LearnedSparseError(f"{path}: format {notes.format}, this version reads {FORMAT}; upgrade learned_sparse")
    return notes


def write_notes(folder: Path, notes: CheckpointNotes) -> None:
    """Write ``learned_sparse.json`` atomically, without an empty ``bags``, which earlier versions do not know."""
    content = dataclasses.asdict(notes)
    if not notes.bags:
        del content["bags"]
    write_json(folder / NOTES, content)


def as_json(settings: Any) -> dict[str, Any]:
    """A settings dataclass with JSON values: tuples become lists, paths strings."""
    return {key: _plain(value) for key, value in dataclasses.asdict(settings).items()}


def check_sizes(name: str, max_length: int, top_k: int | None, limit: int | None = None) -> None:
    """Raise if ``max_length`` or ``top_k`` is out of range; ``limit`` is the length of the position embeddings."""
    if max_length < 3 or (limit is not None and max_length > limit):
        raise LearnedSparseError(f"{name}: max length {max_length}; give 3 to {limit or 'any number of'} tokens")
    if top_k is not None and top_k < 1:
        raise LearnedSparseError(f"{name}: top k {top_k}; give at least 1, or omit it to keep all terms")


def changed_keys(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], changeable: Iterable[str]
) -> frozenset[str]:
    """The settings that differ. A difference outside ``changeable`` is an error that lists what may be changed."""
    changed = frozenset(key for key in after if key not in before or after[key] != before[key])
    for key in sorted(changed - set(changeable)):
        allowed = ", ".join(sorted(changeable)) or "nothing"
        raise LearnedSparseError(
            f"{name}: {key!r} belongs to how the model was trained and cannot be changed; changeable: {allowed}"
        )
    return changed


def _plain_masked_lm(folder: Path) -> CheckpointNotes:
    """The published naver/splade checkpoints are such folders: max pooling, weights * 100."""
    config = read_config(folder, folder)
    length = min(MAX_LENGTH, getattr(config, "max_position_embeddings", MAX_LENGTH))
    sides = ("query", "document")
    return CheckpointNotes(
        format=FORMAT,
        architecture="splade",
        settings={"pooling": "max"},
        vocabulary_size=config.vocab_size,
        max_length=dict.fromkeys(sides, length),
        quantizers={side: Quantizer(100.0).to_json() for side in sides},
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
