"""A checkpoint in memory whose two sides are put together for other settings without loading its towers again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from encoders.backbone import choose_device, choose_dtype, default_batch_size
from encoders.checkpoints import Vocabulary, as_json, locate
from encoders.encoding import (
    CheckpointEncoder,
    architecture_named,
    change_settings,
    default_quantizer,
    load_checkpoint,
    tower_folder,
)
from eval.sweep.shared_modules import Remembering, RememberingWinners, share
from learned_sparse.core import LearnedSparseError, Quantizer, Side, sha256
from learned_sparse.encode import Calibration, choose_quantizer


@dataclass(frozen=True)
class VariantSide:
    """One side with changed settings, and how its weights become impacts."""

    encoder: CheckpointEncoder
    quantizer: Quantizer | Calibration


class SweepModel:
    """Encoders that share towers, and compute what they have in common once for a batch that all get in a row."""

    def __init__(
        self,
        checkpoint: str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        batch_size: str | int | None = None,
    ) -> None:
        """``None``: what ``learned_sparse.encode`` would choose."""
        self.name = checkpoint
        self.model = load_checkpoint(checkpoint)
        self.family = architecture_named(self.model.architecture)
        if self.family.scoring(self.model.settings) != "impact":
            raise LearnedSparseError(f"{checkpoint}: scored by BM25; only models scored by impacts can be swept")
        size = next(iter(self.model.towers.values())).vocabulary_size
        self._vocabulary = Vocabulary.from_tokenizer(self.model.tokenizer, size)
        self._device = choose_device(device)
        self.batch_size = default_batch_size(self._device) if batch_size is None else batch_size
        self.dtype = choose_dtype(dtype, self._device)
        self.remembering: list[Remembering | RememberingWinners] = []
        """The parts that the sides made so far share."""

    def changed(self, changes: Mapping[str, Any]) -> tuple[Any, frozenset[str]]:
        """The settings with ``changes``, and which differ from the checkpoint's; some need training and are refused."""
        return change_settings(self.model.architecture, self.model.settings, changes, self.name)

    def description(self) -> dict[str, Any]:
        """What a reader of the numbers wants to know of the model, as JSON values."""
        folder = locate(self.name)
        weights = {
            name: {path.name: sha256(path) for path in sorted(tower_folder(folder, name).glob("*.safetensors"))}
            for name in self.model.towers
        }
        return {
            "checkpoint": self.name,
            "architecture": self.model.architecture,
            "settings": as_json(self.model.settings),
            "max_length": self.model.max_length,
            "weights_sha256": weights,
            "dtype": self.dtype,
        }

    def document_changes(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Those of ``changes`` that documents depend on."""
        return {key: value for key, value in changes.items() if key not in self.family.query_only_settings}

    def sides(self, side: Side, all_changes: Sequence[Mapping[str, Any]]) -> list[VariantSide]:
        """One side with each of ``all_changes``, all sharing what they have in common."""
        sides = [self._side(side, changes) for changes in all_changes]
        self.remembering += share([made.encoder.weigher for made in sides], self.model.towers.values())
        return sides

    def _side(self, side: Side, changes: Mapping[str, Any]) -> VariantSide:
        """Its quantiser is the stored one unless its weights are of another size now."""
        settings, changed = self.changed(changes)
        names = self.family.towers(settings, side)
        stored = self.model.quantizers[side]
        if not changed <= self.family.query_only_settings:
            stored = default_quantizer(self.family, settings, side)
        encoder = CheckpointEncoder(
            self.family.weigher(settings, side, {name: self.model.towers[name] for name in names}, self._vocabulary),
            self.model.tokenizer,
            self.family.terms(settings, self._vocabulary),
            max_length=self.model.max_length[side],
            device=self._device,
            dtype=self.dtype if names else "fp32",
            batch_size=self.batch_size,
            uses_expanded=side == "document" and self.family.uses_expanded(settings),
        )
        return VariantSide(encoder, choose_quantizer(side, "impact", stored))
