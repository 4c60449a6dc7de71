"""The folder of a run: the finished checkpoint at its top, the last state of training and the log below ``training/``.

The state is one safetensors and one JSON in a folder of their own, which is replaced whole: a killed run resumes there.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from encoders.training.recipe import Recipe
from encoders.training.recipe_file import differences, to_mapping
from encoders.training.state.tensors import load_weights, save_weights
from learned_sparse.core.errors import LearnedSparseError, folder_kind, wrong_path
from learned_sparse.core.files import new_folder, read_record, restore_folder, write_record
from learned_sparse.core.settings import parse

_logger = logging.getLogger(__name__)

_FREE = {"log_every", "save_every", "model"}  # settings that may change when a run is resumed: they affect no weights
_LOCATIONS = {"collection", "topics", "qrels", "triples", "examples", "run", "scores", "expanded"}
"""Settings of data and validation that say where texts are; fingerprints compare the contents."""


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
    """The files of a run. ``training/finished.json`` is written last."""

    def __init__(self, path: Path) -> None:
        self.path, self._training = path, path / "training"
        self.log = self._training / "log.jsonl"  # one line of JSON for each logged step; a resumed run appends to it
        self.state = self._training / "state"
        self.finished = self._training / "finished.json"

    def begin(self, recipe: Recipe, *, resume: bool, overwrite: bool) -> Progress:
        """Progress to start from: that of the last state with ``resume``, else none. Writes nothing."""
        if folder_kind(self.path) not in {"", "a checkpoint", "a model of transformers", "an empty folder"}:
            raise wrong_path(self.path, "a checkpoint", "name another --output")
        restore_folder(self.state)
        path = self.state / "state.json"
        if overwrite:
            return Progress()
        if not resume and (self.state.exists() or (self.path / "learned_sparse.json").exists()):
            raise LearnedSparseError(
                f"{self.path}: this folder holds a run; go on with --resume, replace it with --overwrite, "
                "or name another --output"
            )
        if not self.state.exists():
            return Progress()
        progress: Progress = parse(Progress, read_record(path), str(path))
        try:
            begun = parse(Recipe, progress.recipe, f"{path}: recipe")
        except LearnedSparseError as error:  # a key that is gone since
            raise LearnedSparseError(f"{error}; --overwrite starts again") from error
        if changed := differences(_settings(begun), _settings(recipe)):
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

    def start(self, *, overwrite: bool) -> None:
        """Remove an earlier run, with ``overwrite`` or without a state, once recipe and data are known to be right."""
        if overwrite or not self.state.exists():
            shutil.rmtree(self._training, ignore_errors=True)

    def mined(self, source: int, part: int) -> Path:
        """The run of the last mining in source ``source`` for part ``part`` of a stage's negatives."""
        return self._training / f"mined-{source}-{part}.trec"

    def save(self, progress: Progress, write: Callable[[Path], None]) -> None:
        """Replace the state by that of ``progress``, and remove best weights that it does not name.

        ``write`` puts the tensors into the folder that it is given.
        """
        with new_folder(self.state) as temporary:
            write(temporary)
            write_record(temporary / "state.json", asdict(progress))
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


def _settings(recipe: Recipe) -> dict[str, Any]:
    """What a resumed run has in common with its beginning, besides the contents of what it reads."""
    settings = {key: value for key, value in to_mapping(recipe).items() if key not in _FREE}
    settings["data"] = [_without_locations(part) for part in settings["data"]]
    settings["validation"] = settings["validation"] and _without_locations(settings["validation"])
    return settings


def _without_locations(part: Mapping[str, Any]) -> dict[str, Any]:
    """``part`` with True or False for a location: whether there is one."""
    return {key: value is not None if key in _LOCATIONS else value for key, value in part.items()}
