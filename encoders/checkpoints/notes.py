"""What a checkpoint folder says besides weights and tokenizer, read without torch.

That is the file ``learned_sparse.json``, or what folders of other tools say (``foreign``), described alike.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from encoders.checkpoints.hub import MODULES, locate, published
from learned_sparse.core.errors import LearnedSparseError, did_you_mean, folder_kind, wrong_path
from learned_sparse.core.files import read_json, sha256, write_json
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.settings import parse

NOTES = "learned_sparse.json"
FORMAT = 1
SIDES = ("query", "document")
Weighting = Literal["binary", "tf", "idf", "learned"]
"""Weights of queries without a network: 1 for each token; its count; a table of inverse document frequencies, or of
weights that training found."""
TABLE_WEIGHTINGS = ("idf", "learned")
MAX_LENGTH = 256
"""Default maximum length in tokens, of queries and documents (both papers)."""
_MAX_VOCABULARY = 10_000_000
_NOT_STORED = {"towers", "unrecorded", "assumed_length"}
_WEIGHTS = ("*.safetensors", "idf.json", "pytorch_model.bin")


@dataclass(frozen=True, kw_only=True)
class CheckpointNotes:
    """The content of ``learned_sparse.json``."""

    format: int = FORMAT
    architecture: str
    settings: dict[str, Any]
    vocabulary_size: int
    max_length: dict[str, int]
    """Tokens per side, special tokens included: ``{"query": 256, "document": 256}``."""
    quantizers: dict[str, Quantizer | None]
    """``{"query": {"scale": 100.0, "bits": null}, "document": ...}``; null: to be calibrated."""
    recipe: Any = None
    training: Any = None
    bags: dict[str, Any] = field(default_factory=dict)
    """Sides that learn nothing, which are encoded without torch and transformers: the fields of ``BagNotes``."""
    files: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files of tokenizer and towers, by path; empty in checkpoints of earlier versions."""
    prompts: dict[str, str] = field(default_factory=dict)
    """Text before each text of a side, such as ``{"query": "query: "}``."""
    # of folders of other tools only; never stored
    towers: dict[str, str] = field(default_factory=dict)
    """Folders of the towers below that of the model."""
    unrecorded: tuple[str, ...] = ()
    """Settings that the folder does not say, so that they may be changed."""
    assumed_length: bool = False
    """Whether ``max_length`` is assumed because the folder does not say it."""

    def check_files(self, folder: Path, towers: Iterable[str]) -> None:
        """Raise if a file of the tokenizer, or of one of ``towers``, is not the one that was saved."""
        folders = {"", *(f"towers/{tower}" for tower in towers)}
        for name, recorded in self.files.items():
            path = folder / name
            if name.rpartition("/")[0] in folders and not (path.is_file() and sha256(path) == recorded):
                raise LearnedSparseError(
                    f"{path}: missing, or not the file that was saved (its SHA-256 is not that of {NOTES}); "
                    "copy the checkpoint again"
                )

    def tower_folder(self, folder: Path, tower: str) -> Path:
        """The folder of a tower's weights; raise if another tool has none."""
        if not self.towers:
            return folder / "towers" / tower
        if tower not in self.towers:
            raise LearnedSparseError(
                f"{folder}: has no weights of its own for the tower {tower!r}; join two folders with "
                "encoders.export --to learned-sparse --query-checkpoint"
            )
        return folder / self.towers[tower]

    def description(
        self, folder: Path, side: str, settings: Mapping[str, Any], towers: Iterable[str], **others: Any
    ) -> dict[str, Any]:
        """The description of vectors: the checkpoint and ``others``; ``towers`` are those that the vectors depend on.

        For files that ``check_files`` checked, the SHA-256 is the recorded one.
        """
        weights: dict[str, dict[str, str]] = {}
        for tower in towers:
            files = [path for pattern in _WEIGHTS for path in self.tower_folder(folder, tower).glob(pattern)]
            weights[tower] = {
                path.name: self.files.get(path.relative_to(folder).as_posix()) or sha256(path) for path in sorted(files)
            }
        return {
            "architecture": self.architecture,
            "settings": dict(settings),
            "side": side,
            "weights_sha256": weights,
            **others,
        }


def read_notes(folder: Path) -> CheckpointNotes:
    """The notes of a checkpoint folder, or a description of a folder of another tool.

    Raises if vectors of the other tool cannot be computed exactly.
    """
    path = folder / NOTES
    if not path.exists():
        if not ((folder / "config.json").exists() or (folder / MODULES).exists()):
            reason = f"a checkpoint (neither {NOTES} nor the config.json of a masked-LM)"
            raise wrong_path(folder, reason, "name another folder")
        from encoders.checkpoints.foreign import fields_of

        return CheckpointNotes(**fields_of(folder))
    content = read_json(path, record=True)
    if "architecture" not in content and folder_kind(folder) == "a Lucene index":
        raise wrong_path(folder, "a checkpoint", "name the folder of its model")
    if content.get("format") != FORMAT:
        raise LearnedSparseError(
            f"{path}: format {content.get('format')!r}, this version reads {FORMAT}; upgrade learned_sparse"
        )
    if unknown := _NOT_STORED & content.keys():
        raise LearnedSparseError(f"{path}: unknown key {min(unknown)!r}")
    if isinstance(quantizers := content.get("quantizers"), dict):
        for side in (side for side, quantizer in quantizers.items() if isinstance(quantizer, dict)):
            quantizers[side] = parse(Quantizer, quantizers[side], f"{path}: quantizers: {side}")
    notes = parse(CheckpointNotes, content, str(path))
    if not 0 < notes.vocabulary_size <= _MAX_VOCABULARY:
        raise LearnedSparseError(f"{path}: vocabulary_size {notes.vocabulary_size}; give 1 to {_MAX_VOCABULARY:,}")
    for key in ("max_length", "quantizers"):
        if set(content[key]) != set(SIDES):
            raise LearnedSparseError(f"{path}: {key}: expected one for each of {' and '.join(SIDES)}")
    return notes


def is_sparse_encoder(name: str) -> bool:
    """Whether a backbone is known as a sparse encoder: by the catalogue, or by the notes or modules of its folder."""
    if "queries" in published(name):
        return True
    folder = locate(name)
    modules = folder / MODULES
    return (folder / NOTES).exists() or (modules.exists() and "SpladePooling" in modules.read_text(encoding="utf-8"))


def write_notes(folder: Path, notes: CheckpointNotes) -> None:
    """Write ``learned_sparse.json`` atomically, without empty ``bags``, ``files`` and ``prompts``."""
    content = dataclasses.asdict(notes)
    left_out = {*_NOT_STORED, *(key for key in ("bags", "files", "prompts") if not content[key])}
    write_json(folder / NOTES, {key: value for key, value in content.items() if key not in left_out}, record=True)


def as_json(settings: Any) -> dict[str, Any]:
    """A settings dataclass with JSON values: tuples become lists, paths strings."""
    content: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(settings), default=str))
    return content


def changed_keys(
    name: str, before: Mapping[str, Any], after: Mapping[str, Any], changeable: Iterable[str]
) -> frozenset[str]:
    """The settings that differ. A difference outside ``changeable`` is an error that lists what may be changed."""
    changed = frozenset(key for key in after if key not in before or after[key] != before[key])
    for key in sorted(changed - set(changeable)):
        if key not in before:
            raise LearnedSparseError(f"{name}: unknown setting {key!r}{did_you_mean(key, before)}")
        allowed = ", ".join(sorted(changeable)) or "nothing"
        raise LearnedSparseError(
            f"{name}: {key!r} belongs to how the model was trained and cannot be changed; changeable: {allowed}"
        )
    return changed
