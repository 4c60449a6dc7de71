"""The state of an unfinished run on disk: safetensors and JSON only, and whole or absent."""

from __future__ import annotations

import os
import random
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from learned_sparse.core import LearnedSparseError, parse, read_json, write_json

_FOLDER = re.compile(r"\d\d-\d{9}")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run stands: ``step`` steps of stage ``stage`` (both from 0) are done."""

    stage: int = 0
    step: int = 0
    best_score: float | None = None
    best_step: int | None = None
    stale: int = 0  # validations in a row that were no better
    mixture: Mapping[str, Any] | None = None  # the settings of the best mixture, found with the best weights
    steps_before: int = 0  # done in earlier stages
    mined_at: int | None = None  # the step of the last search for hard negatives by the model itself
    seconds: float = 0.0
    recipe: Mapping[str, Any] = field(default_factory=dict)
    data: tuple[str, ...] = ()  # fingerprints of the sources

    @property
    def name(self) -> str:
        """The state's folder name; names sort in order of progress."""
        return f"{self.stage:02d}-{self.step:09d}"


def parameters_and_buffers(module: nn.Module) -> dict[str, Tensor]:
    """Every tensor that ``state_dict`` names, each once: a tensor shared under several names has the first."""
    found: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        found.setdefault(id(tensor), (name, tensor))
    return dict(found.values())


def save_weights(path: Path, module: nn.Module) -> None:
    """The tensors of ``module`` as safetensors, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    _save(temporary, parameters_and_buffers(module))
    temporary.replace(path)


def load_weights(path: Path, module: nn.Module) -> None:
    """Put the tensors of ``path`` into ``module``."""
    saved, tensors = load_file(path), parameters_and_buffers(module)
    if saved.keys() != tensors.keys():
        raise LearnedSparseError(f"{path}: made for another model; start anew with --overwrite")
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(saved[name])


def save_state(
    folder: Path,
    progress: Progress,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    random_states: Tensor,
    extra: Callable[[Path], None],
) -> None:
    """Write ``folder/<stage>-<step>``, then remove the states before it.

    ``random_states``: one row of ``random_state()`` for each process. ``extra`` writes further files into the folder.
    """
    final = folder / progress.name
    if final.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(".*.tmp"):
        shutil.rmtree(leftover)
    temporary = folder / f".{progress.name}.tmp"
    temporary.mkdir()
    names = {id(tensor): name for name, tensor in parameters_and_buffers(module).items()}
    _save(temporary / "weights.safetensors", parameters_and_buffers(module))
    _save(temporary / "optimizer.safetensors", _optimizer_tensors(optimizer, names))
    _save(temporary / "random.safetensors", {"states": random_states})
    extra(temporary)
    write_json(temporary / "state.json", asdict(progress))
    temporary.rename(final)
    _sync(folder)
    for name in states(folder)[:-1]:
        shutil.rmtree(folder / name)


def states(folder: Path) -> list[str]:
    """The names of the states in ``folder``, the furthest last."""
    return sorted(path.name for path in folder.glob("*") if _FOLDER.fullmatch(path.name)) if folder.is_dir() else []


def read_progress(folder: Path) -> Progress | None:
    """How far the furthest state in ``folder`` is; None without any."""
    found = states(folder)
    path = folder / found[-1] / "state.json" if found else None
    return parse(Progress, read_json(path), str(path)) if path else None


def load_optimizer(path: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Put back what ``save_state`` kept of ``optimizer``."""
    tensors = parameters_and_buffers(module)
    for key, value in load_file(path).items():
        name, _, field_name = key.rpartition("/")
        parameter = tensors[name]
        # Adam keeps its step count on the CPU
        device = "cpu" if field_name == "step" else parameter.device
        optimizer.state[parameter][field_name] = value.to(device)


def random_state(device: torch.device) -> Tensor:
    """The state of torch's random numbers on CPU and ``device``, as one row of bytes."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return torch.cat(states)


def read_random_states(path: Path) -> Tensor:
    """The rows ``save_state`` was given, one for each process."""
    return load_file(path)["states"]


def set_random_state(state: Tensor, device: torch.device) -> None:
    """The inverse of ``random_state``."""
    length = len(torch.get_rng_state())
    torch.set_rng_state(state[:length].cpu())
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[length:].cpu(), device)


def seed_everything(seed: int) -> None:
    """Seed torch (all devices) and Python; the data have generators of their own."""
    torch.manual_seed(seed)
    random.seed(seed)


def _optimizer_tensors(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> dict[str, Tensor]:
    return {
        f"{names[id(parameter)]}/{field_name}": value
        for parameter, fields in optimizer.state.items()
        for field_name, value in fields.items()
    }


def _save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    try:
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)
        _sync(path)
    except OSError as error:
        raise LearnedSparseError(f"{path}: cannot be written ({error.strerror}); make room, then --resume") from error


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
