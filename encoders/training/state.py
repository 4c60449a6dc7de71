"""What a run keeps: its progress, its last state and its best weights, below ``training/`` of its folder.

The state is one safetensors and one JSON in a folder of their own, which is replaced whole: a killed run resumes there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file
from torch import Tensor, nn

from encoders.backbone.device import set_random_state
from encoders.training.recipe import Recipe, differences, to_mapping
from learned_sparse.core.errors import LearnedSparseError, folder_kind, wrong_path
from learned_sparse.core.files import new_file, read_record, restore_folder
from learned_sparse.core.settings import parse

_logger = logging.getLogger(__name__)

_FREE = {"log_every", "save_every", "model", "data"}
"""Settings that may change when a run is resumed: they affect no weights, or fingerprints compare what they name."""


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

    @property
    def best_weights(self) -> str:
        """File name of the best weights of the stage."""
        return f"best-{self.stage:02d}-{self.best_step or 0:09d}.safetensors"


def begin(output: Path, recipe: Recipe, *, resume: bool, overwrite: bool) -> Progress:
    """Progress of a run in ``output``: that of the last state with ``resume``, else none. Writes nothing."""
    if folder_kind(output) not in {"", "a checkpoint", "a model of transformers", "an empty folder"}:
        raise wrong_path(output, "a checkpoint", "name another --output")
    restore_folder(state := output / "training" / "state")
    if overwrite:
        return Progress()
    if not resume and (state.exists() or (output / "learned_sparse.json").exists()):
        raise LearnedSparseError(
            f"{output}: this folder holds a run; go on with --resume, replace it with --overwrite, "
            "or name another --output"
        )
    if not state.exists():
        return Progress()
    path = state / "state.json"
    progress: Progress = parse(Progress, read_record(path), str(path))
    try:
        begun = parse(Recipe, progress.recipe, f"{path}: recipe")
    except LearnedSparseError as error:  # a key that is gone since
        raise LearnedSparseError(f"{error}; --overwrite starts again") from error
    if changed := differences(_settings(begun), _settings(recipe)):
        raise LearnedSparseError(
            f"{output}: cannot resume with another recipe ({'; '.join(changed[:3])}); --overwrite starts again"
        )
    return progress


def _settings(recipe: Recipe) -> dict[str, Any]:
    """What a resumed run has in common with its beginning, besides the contents of what it reads."""
    settings = {key: value for key, value in to_mapping(recipe).items() if key not in _FREE}
    return settings | {"validation": (settings["validation"] or {}) | {"collection": None}}


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
