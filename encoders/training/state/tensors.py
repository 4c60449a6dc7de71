"""Weights, optimizers and random numbers of a run as safetensors."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from encoders.backbone.device import set_random_state
from encoders.training.optimizing import state_device
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_file

_logger = logging.getLogger(__name__)

_WEIGHTS, _OPTIMIZER, _RANDOM, _COUNTS = "weights/", "optimizer/", "random_states", "counts/"
"""Names of the tensors of a state: the last ones are document frequencies of a pruning window that has not ended."""


def save_state(
    path: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    random_states: Tensor,
    counts: Mapping[str, Tensor],
) -> None:
    """Write all tensors of a run; ``random_states`` has one row of ``random_state`` for each process."""
    tensors = parameters_and_buffers(module)
    names = {id(tensor): name for name, tensor in tensors.items()}
    fields = {
        f"{names[id(parameter)]}/{field}": value
        for parameter, state in optimizer.state.items()
        for field, value in state.items()
    }
    parts = {_WEIGHTS: tensors, _OPTIMIZER: fields, _RANDOM: {"": random_states}, _COUNTS: counts}
    _save(path, {f"{prefix}{name}": tensor for prefix, part in parts.items() for name, tensor in part.items()})


def load_state(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device, process: int, processes: int
) -> dict[str, Tensor]:
    """Restore weights, optimizer and random numbers of a saved state; returns its ``counts``.

    With another number of ``processes`` or another kind of device than before, the random numbers are not restored: the
    results differ, and a warning says so.
    """
    content, tensors = _load(path), parameters_and_buffers(module)
    _put(_part(content, _WEIGHTS), tensors, path)
    groups = {id(parameter): group for group in optimizer.param_groups for parameter in group["params"]}
    for key, value in _part(content, _OPTIMIZER).items():
        name, _, field = key.rpartition("/")
        parameter = tensors[name]
        optimizer.state[parameter][field] = value.to(state_device(groups[id(parameter)], parameter, field))
    rows = content[_RANDOM]
    if len(rows) != processes or not set_random_state(rows[process], device):
        _logger.warning(
            "%s: saved with another number of processes or on another kind of device; its random numbers are not "
            "restored, and the weights will differ from those of an undisturbed run",
            path,
        )
    return _part(content, _COUNTS)


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
    _put(_load(path), parameters_and_buffers(module), path)


def _put(saved: Mapping[str, Tensor], tensors: Mapping[str, Tensor], path: Path) -> None:
    if {name: saved[name].shape for name in saved} != {name: tensors[name].shape for name in tensors}:
        raise LearnedSparseError(f"{path}: the weights of another model; start again with --overwrite")
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(saved[name])


def _part(content: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in content.items() if name.startswith(prefix)}


def _save(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def _load(path: Path) -> dict[str, Tensor]:
    try:
        content: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise LearnedSparseError(f"{path}: cannot be read ({error}); start again with --overwrite") from error
    return content
