"""The folder of a run: the finished checkpoint at its top, the state of training below ``training/``."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from encoders.training import state
from encoders.training.recipe import Recipe
from encoders.training.recipe_file import differences, to_mapping
from encoders.training.state import Progress
from learned_sparse.core import LearnedSparseError, write_json

if TYPE_CHECKING:
    from encoders.training.session import AnyLearner, Session

# what may change when a run is resumed: it does not touch the weights
_FREE = {"log_every", "save_every", "model"}


class RunFolder:
    """Where a run keeps what. ``training/finished.json`` appears last of all."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._training = path / "training"
        self._states = self._training / "states"
        self.log = self._training / "log.jsonl"

    def begin(self, recipe: Recipe, *, resume: bool, overwrite: bool) -> Progress:
        """Where the run stands: at its start, or with ``resume`` at the furthest state in the folder."""
        if overwrite:
            shutil.rmtree(self._training, ignore_errors=True)
        progress = state.read_progress(self._states)
        if not resume and not overwrite and (progress or (self.path / "learned_sparse.json").exists()):
            raise LearnedSparseError(
                f"{self.path}: there is a run here already; go on with --resume, replace it with --overwrite, "
                "or name another --output"
            )
        if progress is None:
            self._clear_finished()
            return Progress()
        old, new = (
            {key: value for key, value in side.items() if key not in _FREE}
            for side in (progress.recipe, to_mapping(recipe))
        )
        changed = differences(old, new)
        if changed:
            raise LearnedSparseError(
                f"{self.path}: cannot resume with another recipe ({'; '.join(changed[:3])}); --overwrite starts anew"
            )
        return progress

    def check_data(self, progress: Progress, fingerprints: Sequence[str]) -> None:
        """An error when a run is resumed on data that have changed."""
        if progress.data and progress.data != tuple(fingerprints):
            raise LearnedSparseError(
                f"{self.path}: the training data have changed since the run began; --overwrite starts anew"
            )

    def is_finished(self) -> bool:
        """Whether the run came to its end and its checkpoint is whole."""
        return (self._training / "finished.json").exists()

    def state_of(self, progress: Progress) -> Path | None:
        """The state folder of ``progress``; None at the start of a run."""
        folder = self._states / progress.name
        return folder if folder.exists() else None

    def mined(self, source: int) -> Path:
        """The run of the last search for hard negatives in source ``source``."""
        return self._training / f"mined-{source}.trec"

    def save(self, progress: Progress, session: Session, learner: AnyLearner, extra: Callable[[Path], None]) -> None:
        """Keep the state; best weights that it does not name are removed."""
        random_states = session.random_states()

        def write() -> None:
            weighers = session.model.weighers
            state.save_state(self._states, progress, weighers, learner.optimizer, random_states, extra)
            for path in self._training.glob("best-*.safetensors"):
                if path != self._best(progress):
                    path.unlink()

        session.if_main(write)

    def save_best(self, progress: Progress, weighers: nn.Module) -> None:
        """Keep the best weights so far, beside those that the last state names."""
        state.save_weights(self._best(progress), weighers)

    def load_best(self, progress: Progress, weighers: nn.Module) -> None:
        """Put the best weights of the stage into the model; without validation they stay as they are."""
        if progress.best_step is not None:
            state.load_weights(self._best(progress), weighers)

    def export(
        self,
        recipe: Recipe,
        progress: Progress,
        session: Session,
        texts: Mapping[str, Sequence[str]],
        *,
        mixture: Mapping[str, Any] | None,
        finished: bool,
    ) -> None:
        """Write the checkpoint: the model with the settings that training found, and calibrated quantisers."""
        from encoders.encoding import save_checkpoint
        from encoders.training.finishing import adopt
        from encoders.training.validation import quantizers

        model = session.model
        adopt(model, mixture, session.device)
        model.quantizers = quantizers(recipe.quantization, model.quantizers, session.encode, texts)
        model.recipe = to_mapping(recipe)
        model.training = self._notes(progress, session, mixture, finished)
        save_checkpoint(self.path, model)
        if finished:
            write_json(self._training / "finished.json", model.training)

    def _notes(
        self, progress: Progress, session: Session, mixture: Mapping[str, Any] | None, finished: bool
    ) -> dict[str, object]:
        found: dict[str, object] = {} if mixture is None else {"mixture": dict(mixture)}
        return {
            "device": session.device.type,
            "threads": torch.get_num_threads(),
            "finished": finished,
            "stage": progress.stage,
            "step": progress.step,
            "MRR@10": progress.best_score,
            "best_step": progress.best_step,
            "seconds": progress.seconds,
            **found,
        }

    def _best(self, progress: Progress) -> Path:
        return self._training / f"best-{progress.stage:02d}-{progress.best_step or 0:09d}.safetensors"

    def _clear_finished(self) -> None:
        (self._training / "finished.json").unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)
