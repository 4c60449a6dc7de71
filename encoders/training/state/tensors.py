"""Weights, optimizers and random numbers of a run as safetensors, each file with a checksum."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from encoders.backbone import set_random_state
from encoders.training.optimizing import state_device
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import new_file

_logger = logging.getLogger(__name__)

_CHECKSUM = "sha256"
"""Key in the header of the files."""


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
        save_tensors(temporary, parameters_and_buffers(module))


def load_weights(path: Path, module: nn.Module) -> None:
    """Put the tensors of ``path`` into ``module``."""
    saved, tensors = _load(path), parameters_and_buffers(module)
    if saved.keys() != tensors.keys():
        raise LearnedSparseError(f"{path}: the weights of another model; start again with --overwrite")
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(saved[name])


def optimizer_tensors(optimizer: torch.optim.Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """Every field of the optimizer's state, as ``parameter/field``."""
    names = {id(tensor): name for name, tensor in parameters_and_buffers(module).items()}
    return {
        f"{names[id(parameter)]}/{field_name}": value
        for parameter, fields in optimizer.state.items()
        for field_name, value in fields.items()
    }


def save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write ``tensors`` with a checksum of their names, types, shapes and numbers."""
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
