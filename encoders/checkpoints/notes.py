"""The file ``learned_sparse.json`` of a checkpoint: everything but weights and tokenizer, readable without torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from encoders.checkpoints.catalogue import published
from encoders.checkpoints.foreign import MODULES, Foreign, read_foreign
from encoders.checkpoints.hub import locate
from learned_sparse.core.errors import LearnedSparseError, folder_kind, wrong_path
from learned_sparse.core.files import read_record, sha256, write_record
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.settings import parse

NOTES = "learned_sparse.json"
FORMAT = 1
TABLE = "weights.safetensors"
"""Weights of terms in ``towers/NAME``, for a bag of words that has a table."""
SIDES = ("query", "document")
MAX_LENGTH = 256
"""Default maximum length in tokens, of queries and documents (both papers)."""
_MAX_VOCABULARY = 10_000_000


@dataclass(frozen=True, kw_only=True)
class BagNotes:
    """A side that is a bag of words: everything its vectors depend on besides the tokenizer."""

    weighting: Literal["binary", "tf", "table"]
    excluded: tuple[int, ...]
    """Token ids that are never in the bag."""
    scoring: Literal["impact", "bm25"]
    scale: float | None
    """Factor from weights to impacts after settings are changed; ``None``: calibrate."""
    changeable: tuple[str, ...] = ()
    """Settings of the model that may be changed; none of them changes the bag."""
    query_only_settings: tuple[str, ...] = ()
    """Those of ``changeable`` that leave the stored quantizer valid."""
    table: str | None = None
    """Tower with the weights of terms, for ``weighting: table``."""


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
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files of tokenizer and towers, by path; empty in checkpoints of earlier versions."""

    def check(self, where: str) -> None:
        """Raise if a value is out of range; ``where`` opens the message."""
        if not 0 < self.vocabulary_size <= _MAX_VOCABULARY:
            raise LearnedSparseError(f"{where}: vocabulary_size {self.vocabulary_size}; give 1 to {_MAX_VOCABULARY:,}")
        for key in ("max_length", "quantizers"):
            if set(getattr(self, key)) != set(SIDES):
                raise LearnedSparseError(f"{where}: {key}: expected one for each of {' and '.join(SIDES)}")
        for side, content in self.quantizers.items():
            if content is not None:
                parse(Quantizer, content if isinstance(content, Mapping) else {}, f"{where}: quantizers: {side}")
        for side, bag in self.bags.items():
            if (bag.weighting == "table") != (bag.table is not None):
                raise LearnedSparseError(f"{where}: bags: {side}: 'weighting: table' and 'table' go together")
            if side not in SIDES or not all(0 <= token < self.vocabulary_size for token in bag.excluded):
                raise LearnedSparseError(f"{where}: bags: {side}: no side, or it excludes tokens beyond the vocabulary")

    def check_files(self, folder: Path, towers: Iterable[str]) -> None:
        """Raise if a file of the tokenizer, or of one of ``towers``, is not the one that was saved."""
        folders = {"", *(f"towers/{tower}" for tower in towers)}
        for name, recorded in self.files.items():
            if name.rpartition("/")[0] in folders and not _is_file_with(folder / name, recorded):
                raise LearnedSparseError(
                    f"{folder / name}: missing, or not the file that was saved (its SHA-256 is not that of {NOTES}); "
                    "copy the checkpoint again"
                )

    @property
    def unrecorded(self) -> tuple[str, ...]:
        """Settings that the folder does not say, so that they may be changed."""
        return ()

    @property
    def assumed_length(self) -> bool:
        """Whether ``max_length`` is assumed because the folder does not say it."""
        return False

    def tower_folder(self, folder: Path, tower: str) -> Path:
        """The folder of a tower's weights."""
        return folder / "towers" / tower

    def tokenizer_folder(self, folder: Path) -> Path:
        """The folder of the tokenizer."""
        return folder

    def quantizer(self, side: str) -> Quantizer | None:
        """The quantizer of one side; None if it has to be calibrated first."""
        content = self.quantizers.get(side)
        return None if content is None else Quantizer.from_json(content)


@dataclass(frozen=True, kw_only=True)
class ForeignNotes(CheckpointNotes):
    """Notes of a folder of another tool; they are never written."""

    foreign: Foreign

    @property
    def unrecorded(self) -> tuple[str, ...]:
        """Settings that the folder does not say, so that they may be changed."""
        return self.foreign.unrecorded

    @property
    def assumed_length(self) -> bool:
        """Whether ``max_length`` is assumed because the folder does not say it."""
        return self.foreign.assumed_length

    def tower_folder(self, folder: Path, tower: str) -> Path:
        """The folder of a tower's weights; raise if there are none."""
        if tower not in self.foreign.towers:
            raise LearnedSparseError(
                f"{folder}: has no weights of its own for the tower {tower!r}; join two folders with "
                "encoders.export --to learned-sparse --query-checkpoint"
            )
        return folder / self.foreign.towers[tower]

    def tokenizer_folder(self, folder: Path) -> Path:
        """The folder of the tokenizer: that of the document's tower."""
        return folder / self.foreign.towers["document"]


def read_notes(folder: Path) -> CheckpointNotes:
    """The notes of a checkpoint folder, or what ``read_foreign`` says of a folder of another tool."""
    path = folder / NOTES
    if path.exists():
        if folder_kind(folder) == "a Lucene index":
            raise wrong_path(folder, "a checkpoint", "name the folder of its model")
        content = read_record(path)
        if content.get("format") != FORMAT:
            raise LearnedSparseError(
                f"{path}: format {content.get('format')!r}, this version reads {FORMAT}; upgrade learned_sparse"
            )
        notes = parse(CheckpointNotes, content, str(path))
        notes.check(str(path))
    elif (folder / "config.json").exists() or (folder / MODULES).exists():
        notes = _foreign_notes(folder)
    else:
        raise wrong_path(
            folder, f"a checkpoint (neither {NOTES} nor the config.json of a masked-LM)", "name another folder"
        )
    return notes


def is_sparse_encoder(name: str, revision: str | None = None) -> bool:
    """Whether a backbone is known as a sparse encoder: by the catalogue, or by the notes or modules of its folder."""
    entry = published(name)
    if entry is not None and entry.queries is not None:
        return True
    folder = locate(name, revision)
    modules = folder / MODULES
    return (folder / NOTES).exists() or (modules.exists() and "SpladePooling" in modules.read_text(encoding="utf-8"))


def write_notes(folder: Path, notes: CheckpointNotes) -> None:
    """Write ``learned_sparse.json`` atomically, without empty ``bags`` and ``files``."""
    content = dataclasses.asdict(notes)
    for key in ("bags", "files"):
        if not content[key]:
            del content[key]
    write_record(folder / NOTES, content)


def hash_files(folder: Path, files: Iterable[Path]) -> dict[str, str]:
    """``CheckpointNotes.files`` for ``files`` in ``folder``."""
    return {path.relative_to(folder).as_posix(): sha256(path) for path in sorted(files)}


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


def _foreign_notes(folder: Path) -> ForeignNotes:
    foreign = read_foreign(folder)
    return ForeignNotes(
        format=FORMAT,
        architecture=foreign.architecture,
        settings=foreign.settings,
        vocabulary_size=foreign.vocabulary_size,
        max_length=foreign.max_length,
        quantizers={side: Quantizer(foreign.scale).to_json() for side in SIDES},
        foreign=foreign,
    )


def _is_file_with(path: Path, recorded: str) -> bool:
    return path.is_file() and sha256(path) == recorded


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
