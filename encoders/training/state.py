"""What a run keeps and reports: its last state, its best weights and its log, below ``training/`` of its folder.

The state is one safetensors and one JSON in a folder of their own, which is replaced whole: a killed run resumes there.
"""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file
from torch import Tensor, nn
from tqdm import tqdm

from encoders.backbone.device import set_random_state
from encoders.training.recipe import Recipe, differences, to_mapping
from learned_sparse.core.errors import LearnedSparseError, folder_kind, wrong_path
from learned_sparse.core.files import new_file, new_folder, read_record, restore_folder, write_record
from learned_sparse.core.settings import parse

_logger = logging.getLogger(__name__)

_FREE = {"log_every", "save_every", "model", "data"}
"""Settings that may change when a run is resumed: they affect no weights, or fingerprints compare what they name."""
_SHOWN = {"loss": ".4g", "terms_per_query": ".0f", "terms_per_document": ".0f"}
"""Logged values that the progress bar shows, and their formats."""

Track = Callable[[Mapping[str, float], int], None]
"""Sends numbers by name to a tracker, with the step counted over all stages."""


@dataclass(kw_only=True)
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

    @property
    def steps(self) -> int:
        """Over all stages."""
        return self.steps_before + self.step


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

    def check_data(self, progress: Progress, fingerprints: Mapping[str, str]) -> None:
        """Raise if a run is resumed on other data."""
        names = {*fingerprints, *progress.data} if progress.data else set()
        if changed := sorted(name for name in names if progress.data.get(name) != fingerprints.get(name)):
            raise LearnedSparseError(
                f"{self.path}: the training data have changed since the run began ({', '.join(changed)}); "
                "--overwrite starts again"
            )

    def start(self, *, overwrite: bool) -> None:
        """Remove an earlier run, with ``overwrite`` or without a state, once recipe and data are known to be right."""
        if overwrite or not self.state.exists():
            shutil.rmtree(self._training, ignore_errors=True)
        self._training.mkdir(parents=True, exist_ok=True)

    def mined(self, source: int) -> Path:
        """The run of the last mining in source ``source``."""
        return self._training / f"mined-{source}.trec"

    def best(self, progress: Progress) -> Path:
        """The best weights of a stage."""
        return self._training / f"best-{progress.stage:02d}-{progress.best_step or 0:09d}.safetensors"

    @contextmanager
    def saving(self, progress: Progress) -> Iterator[Path]:
        """A folder for tensors, which becomes the state of ``progress`` at the end of the ``with`` block.

        Best weights that ``progress`` does not name are removed.
        """
        with new_folder(self.state) as temporary:
            yield temporary
            write_record(temporary / "state.json", asdict(progress))
        for path in self._training.glob("best-*.safetensors"):
            if path != self.best(progress):
                path.unlink()


def _settings(recipe: Recipe) -> dict[str, Any]:
    """What a resumed run has in common with its beginning, besides the contents of what it reads."""
    settings = {key: value for key, value in to_mapping(recipe).items() if key not in _FREE}
    return settings | {"validation": (settings["validation"] or {}) | {"collection": None}}


class Journal:
    """``log.jsonl`` of a run, one JSON line per logged step, and a progress bar.

    A run that was killed and resumed logs some steps twice; the last line of a step counts.
    """

    def __init__(self, path: Path, *, quiet: bool, track: Track) -> None:
        self._track = track
        self._file = path.open("a", encoding="utf-8", newline="\n")
        self._quiet, self._bar = quiet, tqdm(disable=True)

    def start(self, name: str, step: int, steps: int) -> None:
        """Start the progress bar of a stage at ``step``."""
        self._bar.close()
        hidden = self._quiet or None  # None: without a terminal
        self._bar = tqdm(total=steps, initial=step, desc=name, unit="step", disable=hidden, dynamic_ncols=True)
        self._time, self._examples = time.monotonic(), 0

    def advance(self, examples: int) -> None:
        """Record one step with this number of examples."""
        self._bar.update()
        self._examples += examples

    def log(self, progress: Progress, values: Mapping[str, Any]) -> None:
        """Log the values of a training step, or of a validation, a pruning or a mining."""
        if "loss" in values:  # a step: with the examples per second since the last line
            rate = self._examples / max(time.monotonic() - self._time, 1e-9)
            values = {**values, "examples_per_second": round(rate, 2)}
            shown = {name: format(values[name], form) for name, form in _SHOWN.items() if name in values}
            self._bar.set_postfix(shown, refresh=False)
        elif not self._quiet:
            _logger.info("step %d: %s", progress.step, ", ".join(f"{name} {value}" for name, value in values.items()))
        numbers = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
        self._track(numbers, progress.steps)
        self._file.write(json.dumps({"stage": progress.stage, "step": progress.step, **values}) + "\n")
        self._file.flush()
        self._time, self._examples = time.monotonic(), 0

    def close(self) -> None:
        """End the bar and close the file."""
        self._bar.close()
        self._file.close()


def save_state(
    folder: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    random_states: Tensor,
    counts: Mapping[str, Tensor],
) -> None:
    """Write all tensors of a run: weights, optimizer, random numbers, and the ``counts`` of an unfinished window.

    ``random_states`` has one row of ``random_state`` for each process.
    """
    content = {"random_states": random_states, **{f"counts/{name}": tensor for name, tensor in counts.items()}}
    for number, state in optimizer.state_dict()["state"].items():
        content |= {f"optimizer/{number}/{name}": tensor for name, tensor in state.items()}
    save_file(_tensors(module), folder / "weights.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in content.items()}, folder / "state.safetensors")


def load_state(
    folder: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    process: int,
    processes: int,
) -> dict[str, Tensor]:
    """Restore weights, optimizer and random numbers of a saved state; returns its ``counts``.

    With another number of ``processes`` or another kind of device than before, the random numbers are not restored: the
    results differ, and a warning says so.
    """
    load_weights(folder / "weights.safetensors", module)
    with _readable(folder / "state.safetensors") as path:
        content = load_file(path)
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in _part(content, "optimizer/").items():
        number, _, name = key.partition("/")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    rows = content["random_states"]
    if len(rows) != processes or not set_random_state(rows[process], device):
        _logger.warning(
            "%s: saved with another number of processes or on another kind of device; its random numbers are not "
            "restored, and the weights will differ from those of an undisturbed run",
            folder,
        )
    return _part(content, "counts/")


def save_weights(path: Path, module: nn.Module) -> None:
    """Write the tensors of ``module`` as safetensors, whole or not at all."""
    with new_file(path) as temporary:
        save_file(_tensors(module), temporary)


def load_weights(path: Path, module: nn.Module) -> None:
    """Put the tensors of ``path`` into ``module``."""
    with _readable(path):
        load_model(module, path)


def _tensors(module: nn.Module) -> dict[str, Tensor]:
    """Each tensor once. safetensors' ``save_model`` names shared tensors in an order that differs between processes."""
    names = {id(tensor): name for name, tensor in reversed(module.state_dict(keep_vars=True).items())}
    return {name: tensor.contiguous() for name, tensor in module.state_dict().items() if name in names.values()}


@contextmanager
def _readable(path: Path) -> Iterator[Path]:
    try:
        yield path
    except (SafetensorError, OSError, RuntimeError) as error:  # RuntimeError: the weights of another model
        raise LearnedSparseError(f"{path}: cannot be read ({error}); start again with --overwrite") from error


def _part(content: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in content.items() if name.startswith(prefix)}
