"""The folder of a run: the finished checkpoint at its top, states of training and the log below ``training/``.

A state is safetensors and JSON only, and whole or absent: a run that is killed goes on from the last whole one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from tqdm import tqdm

from encoders.backbone import set_random_state
from encoders.training.optimizing import state_device
from encoders.training.recipe import Recipe
from encoders.training.recipe_file import differences, to_mapping
from learned_sparse.core import (
    LearnedSparseError,
    atomic_write,
    new_file,
    new_folder,
    parse,
    read_record,
    replace_folder,
    restore_folder,
    write_json,
    write_record,
)
from learned_sparse.jsonvector import versions

_logger = logging.getLogger(__name__)

_FREE = {"log_every", "save_every", "model"}  # settings that may change when a run is resumed: they affect no weights
_LOCATIONS = {"collection", "topics", "qrels", "triples", "run", "candidates", "expanded"}
"""Settings of data and validation that say where texts are; fingerprints compare the contents."""
_UNSAVED = ".training"
_CHECKSUM = "sha256"
"""Key in the header of a state's safetensors files."""
_STATE = re.compile(r"\d\d-\d{9}")
_SHOWN = {"loss": ".4g", "terms_per_query": ".0f", "terms_per_document": ".0f"}
"""Logged values that the progress bar shows, and their formats."""


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
    def _states(self) -> Path:
        return self._training / "states"

    def begin(self, recipe: Recipe, *, resume: bool, overwrite: bool) -> Progress:
        """The progress of the run: none, or with ``resume`` that of the last state in the folder; writes nothing."""
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

    def check_data(self, progress: Progress, fingerprints: Mapping[str, str]) -> None:
        """Raise if a run is resumed on other data; warn if it is resumed with other libraries."""
        if not progress.data:
            return
        if changed := sorted(name for name, value in fingerprints.items() if progress.data.get(name) != value):
            raise LearnedSparseError(
                f"{self.path}: the training data have changed since the run began ({', '.join(changed)}); "
                "--overwrite starts again"
            )
        if lines := differences(progress.versions, versions()):
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
                _save(temporary / "weights.safetensors", parameters_and_buffers(module))
                _save(temporary / "optimizer.safetensors", _optimizer_tensors(optimizer, module))
                _save(temporary / "random.safetensors", {"states": random_states})
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


class Journal:
    """``log.jsonl`` of a run, one JSON line per logged step, and a progress bar.

    A resumed run first drops the lines of steps that it computes again.
    """

    def __init__(self, path: Path | None, *, stage: int, step: int, quiet: bool) -> None:
        """``path`` is None in all processes but the main one."""
        if path is not None:
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            kept = [line for line in lines if _position(line) <= (stage, step)]
            with atomic_write(path) as file:
                file.write("".join(f"{line}\n" for line in kept).encode())
        path = path or Path(os.devnull)
        self._file = path.open("a", encoding="utf-8", newline="\n")
        self._quiet = quiet
        self._bar: Any = None

    def start(self, name: str, step: int, steps: int) -> None:
        """Start the progress bar of a stage at ``step``."""
        self._close_bar()
        self._bar = tqdm(total=steps, initial=step, desc=name, unit="step", disable=self._quiet, dynamic_ncols=True)
        self._time, self._examples = time.monotonic(), 0

    def advance(self, examples: int) -> None:
        """Record one step with this number of examples."""
        self._bar.update()
        self._examples += examples

    def log_step(self, stage: int, step: int, values: Mapping[str, Any]) -> None:
        """Log the values of a training step, with the examples per second since the last line."""
        now = time.monotonic()
        rate = self._examples / max(now - self._time, 1e-9)
        self._time, self._examples = now, 0
        self._write({"stage": stage, "step": step, **values, "examples_per_second": round(rate, 2)})
        shown = {name: format(values[name], form) for name, form in _SHOWN.items() if name in values}
        self._bar.set_postfix(shown, refresh=False)

    def log_event(self, stage: int, step: int, values: Mapping[str, Any]) -> None:
        """Log a validation, a pruning or a mining."""
        self._write({"stage": stage, "step": step, **values})
        if not self._quiet:
            _logger.info("step %d: %s", step, ", ".join(f"{name} {value}" for name, value in values.items()))
        self._time = time.monotonic()

    def close(self) -> None:
        """End the bar and close the file."""
        self._close_bar()
        self._file.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _position(line: str) -> tuple[int, int]:
    """Stage and step of a line; a line cut off by a kill is after all others."""
    try:
        values = json.loads(line)
        return values["stage"], values["step"]
    except (ValueError, KeyError):
        return (2**31, 0)


def load_state(
    state: Path, module: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device, process: int, processes: int
) -> None:
    """Restore weights, optimizer and random numbers of a saved state.

    With another number of ``processes`` or another kind of device than before, the random numbers are not restored: the
    results differ, and a warning says so.
    """
    load_weights(state / "weights.safetensors", module)
    tensors = parameters_and_buffers(module)
    groups = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    for key, value in _load(state / "optimizer.safetensors").items():
        name, _, field_name = key.rpartition("/")
        parameter = tensors[name]
        device_of_field = state_device(groups[id(parameter)], parameter, field_name)
        optimizer.state[parameter][field_name] = value.to(device_of_field)
    rows = _load(state / "random.safetensors")["states"]
    if len(rows) != processes or not set_random_state(rows[process], device):
        _logger.warning(
            "%s: saved with another number of processes or on another kind of device; its random numbers are not "
            "restored, and the weights will differ from those of an undisturbed run",
            state,
        )


def parameters_and_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Every tensor of ``state_dict``, once: a tensor shared under several names has the first of them."""
    tensors: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        tensors.setdefault(id(tensor), (name, tensor))
    return dict(tensors.values())


def save_weights(path: Path, module: nn.Module) -> None:
    """Write the tensors of ``module`` as safetensors, whole or not at all."""
    with new_file(path) as temporary:
        _save(temporary, parameters_and_buffers(module))


def load_weights(path: Path, module: nn.Module) -> None:
    """Put the tensors of ``path`` into ``module``."""
    saved, tensors = _load(path), parameters_and_buffers(module)
    if saved.keys() != tensors.keys():
        raise LearnedSparseError(f"{path}: the weights of another model; start again with --overwrite")
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(saved[name])


def _optimizer_tensors(optimizer: torch.optim.Optimizer, module: nn.Module) -> dict[str, Tensor]:
    names = {id(tensor): name for name, tensor in parameters_and_buffers(module).items()}
    return {
        f"{names[id(parameter)]}/{field_name}": value
        for parameter, fields in optimizer.state.items()
        for field_name, value in fields.items()
    }


def _save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(content, path, {_CHECKSUM: _digest(content)})


def _load(path: Path) -> dict[str, Tensor]:
    """The tensors that ``_save`` wrote; a file that has changed since is an error."""
    try:
        with safe_open(path, framework="pt") as file:
            recorded = (file.metadata() or {}).get(_CHECKSUM)
            content = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise LearnedSparseError(f"{path}: cannot be read ({error}); start again with --overwrite") from error
    if recorded is not None and recorded != _digest(content):
        raise LearnedSparseError(f"{path}: changed since it was written; restore it, or start again with --overwrite")
    return content


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names, types, shapes and numbers."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
