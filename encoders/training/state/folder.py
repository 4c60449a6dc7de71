"""The folder of a run: the finished checkpoint at its top, states of training and the log below ``training/``.

A state is safetensors and JSON only, and whole or absent: a run that is killed goes on from the last whole one.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from encoders.training.recipe import Recipe
from encoders.training.recipe_file import differences, to_mapping
from encoders.training.state.tensors import (
    load_weights,
    optimizer_tensors,
    parameters_and_buffers,
    save_tensors,
    save_weights,
)
from learned_sparse.core.errors import LearnedSparseError, folder_kind, wrong_path
from learned_sparse.core.files import new_folder, read_record, replace_folder, restore_folder, write_json, write_record
from learned_sparse.core.settings import parse

_logger = logging.getLogger(__name__)

_FREE = {"log_every", "save_every", "model"}  # settings that may change when a run is resumed: they affect no weights
_LOCATIONS = {"collection", "topics", "qrels", "triples", "examples", "run", "scores", "candidates", "expanded"}
"""Settings of data and validation that say where texts are; fingerprints compare the contents."""
_UNSAVED = ".training"
_STATE = re.compile(r"\d\d-\d{9}")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Position of a run: ``step`` steps of stage ``stage`` (both from 0) are done."""

    stage: int = 0
    step: int = 0
    best_score: float | None = None
    best_step: int | None = None
    stale: int = 0  # validations in a row without a better score
    mixture: Mapping[str, Any] | None = None  # settings of the best mixture, found with the best weights
    steps_before: int = 0  # of earlier stages
    mined_at: int | None = None  # step of the last mining of hard negatives
    seconds: float = 0.0
    recipe: Mapping[str, Any] = field(default_factory=dict)  # completed from its base
    data: Mapping[str, str] = field(default_factory=dict)  # fingerprints of what is read, by name
    versions: Mapping[str, str] = field(default_factory=dict)  # of the libraries that computed the last steps

    @property
    def name(self) -> str:
        """The name of the state's folder; names sort in order of progress."""
        return f"{self.stage:02d}-{self.step:09d}"


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """The result of a run."""

    checkpoint: Path
    finished: bool
    steps: int  # over all stages
    best_score: float | None
    seconds: float  # of training, over all resumptions
    written: bool  # whether the checkpoint was written: not if the run was interrupted


class RunFolder:
    """The files of a run. ``training/finished.json`` is written last.

    A run that replaces another one writes below ``.training`` until its first state is saved, so that an error in its
    recipe or data leaves the other run whole. ``.training`` then takes the place of ``training``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._training = path / "training"

    @property
    def log(self) -> Path:
        """The log, one line of JSON for each logged step."""
        return self._training / "log.jsonl"

    @property
    def texts(self) -> Path:
        """Copies of collections that the processes of the run map into memory."""
        return self.path / ".texts"

    @property
    def _states(self) -> Path:
        return self._training / "states"

    def begin(self, recipe: Recipe, *, resume: bool, overwrite: bool) -> Progress:
        """The progress of the run: none, or with ``resume`` that of the last state in the folder; writes nothing."""
        if folder_kind(self.path) not in {"", "a checkpoint", "a model of transformers", "an empty folder"}:
            raise wrong_path(self.path, "a checkpoint", "name another --output")
        restore_folder(self._training)
        progress = self._last_progress()
        if not resume and not overwrite and (progress or (self.path / "learned_sparse.json").exists()):
            raise LearnedSparseError(
                f"{self.path}: this folder holds a run; go on with --resume, replace it with --overwrite, "
                "or name another --output"
            )
        if progress is None or overwrite:
            return Progress()
        changed = differences(_settings(progress.recipe), _settings(to_mapping(recipe)))
        if changed:
            raise LearnedSparseError(
                f"{self.path}: cannot resume with another recipe ({'; '.join(changed[:3])}); --overwrite starts again"
            )
        return progress

    def check_data(self, progress: Progress, fingerprints: Mapping[str, str], versions: Mapping[str, str]) -> None:
        """Raise if a run is resumed on other data; warn if it is resumed with other libraries or another precision."""
        if not progress.data:
            return
        if changed := sorted(name for name, value in fingerprints.items() if progress.data.get(name) != value):
            raise LearnedSparseError(
                f"{self.path}: the training data have changed since the run began ({', '.join(changed)}); "
                "--overwrite starts again"
            )
        if lines := differences(progress.versions, versions):
            _logger.warning(
                "%s: resumed with other versions (%s): the weights may differ from those of an undisturbed run",
                self.path, "; ".join(lines),
            )  # fmt: skip

    def start(self, progress: Progress, *, overwrite: bool, is_main: bool) -> None:
        """Prepare the folder, once recipe and data are known to be right; only the main process removes files."""
        if is_main:
            self.remove_unsaved()
            if not overwrite and self.state_of(progress) is None:
                for path in (self._training / "finished.json", self.log):
                    path.unlink(missing_ok=True)
        if overwrite:
            self._training = self.path / _UNSAVED

    def after_save(self) -> None:
        """Note, in every process, that the state of a run that replaces another one has been saved."""
        self._training = self.path / "training"

    def remove_unsaved(self) -> None:
        """Remove what a run that was to replace another one wrote before its first state."""
        shutil.rmtree(self.path / _UNSAVED, ignore_errors=True)

    def remove_texts(self) -> None:
        """Remove the copies of collections."""
        shutil.rmtree(self.texts, ignore_errors=True)

    def is_finished(self) -> bool:
        """Whether the run has ended and its checkpoint is whole."""
        return (self._training / "finished.json").exists()

    def mark_finished(self, notes: Any) -> None:
        """Record the end of the run."""
        write_json(self._training / "finished.json", notes)

    def state_of(self, progress: Progress) -> Path | None:
        """The state folder of ``progress``; None at the start of a run."""
        folder = self._states / progress.name
        return folder if folder.exists() else None

    def mined(self, source: int, part: int) -> Path:
        """The run of the last mining in source ``source`` for part ``part`` of a stage's negatives."""
        return self._training / f"mined-{source}-{part}.trec"

    def mining(self, process: int) -> Path:
        """The hits so far of a mining that is under way."""
        return self._training / f"mining-{process}.npz"

    def save(
        self,
        progress: Progress,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        random_states: Tensor,
        extra: Callable[[Path], None],
    ) -> None:
        """Write the state of ``progress``, then remove earlier states and best weights that it does not name.

        ``random_states``: one row of ``random_state`` for each process. ``extra`` writes further files into the
        state's folder.
        """
        final = self._states / progress.name
        for leftover in self._states.glob(".*.tmp"):
            shutil.rmtree(leftover)
        if not final.exists():
            with new_folder(final) as temporary:
                save_tensors(temporary / "weights.safetensors", parameters_and_buffers(module))
                save_tensors(temporary / "optimizer.safetensors", optimizer_tensors(optimizer, module))
                save_tensors(temporary / "random.safetensors", {"states": random_states})
                extra(temporary)
                write_record(temporary / "state.json", asdict(progress))
            if self._training.name == _UNSAVED:
                replace_folder(self._training, self.path / "training")
                self.remove_unsaved()
                self.after_save()
        for name in self._names()[:-1]:  # a killed run may have left some, even if this state was saved
            shutil.rmtree(self._states / name)
        for path in self._training.glob("best-*.safetensors"):
            if path != self._best(progress):
                path.unlink()

    def save_best(self, progress: Progress, weighers: nn.Module) -> None:
        """Keep the best weights so far, beside those that the last state names."""
        save_weights(self._best(progress), weighers)

    def report(self, progress: Progress, *, finished: bool, written: bool = True) -> TrainingReport:
        """The result of a run that ends at ``progress``."""
        return TrainingReport(
            checkpoint=self.path,
            finished=finished,
            steps=progress.steps_before + progress.step,
            best_score=progress.best_score,
            seconds=progress.seconds,
            written=written,
        )

    def load_best(self, progress: Progress, weighers: nn.Module) -> None:
        """Put the best weights of the stage into the model; without validation the weights stay."""
        if progress.best_step is not None:
            load_weights(self._best(progress), weighers)

    def _best(self, progress: Progress) -> Path:
        return self._training / f"best-{progress.stage:02d}-{progress.best_step or 0:09d}.safetensors"

    def _last_progress(self) -> Progress | None:
        names = self._names()
        path = self._states / names[-1] / "state.json" if names else None
        return parse(Progress, read_record(path), str(path)) if path else None

    def _names(self) -> list[str]:
        """The names of the states, the last one at the end."""
        return sorted(path.name for path in self._states.glob("*") if _STATE.fullmatch(path.name))


def _settings(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """What a resumed run has in common with its beginning, besides the contents of what it reads."""
    settings = {key: value for key, value in recipe.items() if key not in _FREE}
    settings["data"] = [_without_locations(part) for part in settings.get("data", ())]
    settings["validation"] = settings.get("validation") and _without_locations(settings["validation"])
    return settings


def _without_locations(part: Mapping[str, Any]) -> dict[str, Any]:
    """``part`` with True or False for a location: whether there is one."""
    return {key: value is not None if key in _LOCATIONS else value for key, value in part.items()}
