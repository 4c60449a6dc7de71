"""Towers compiled by torch.compile."""

from __future__ import annotations

import torch
from torch import nn

from encoders.backbone.hidden_states import HiddenStates
from encoders.backbone.masked_lm import Tower
from learned_sparse.core import LearnedSparseError


def compile_towers(weigher: nn.Module, who: str) -> None:
    """Compile each tower's own forward pass for batches of any size, in place; it is tried at once.

    A machine without compiler is an error that opens with ``who``. On the CPU this is slower than what is run there
    otherwise, which has no padding.
    """
    for module in list(weigher.modules()):
        if isinstance(module, (Tower, HiddenStates)):
            module.packed = None
            module.model.compile(dynamic=True)
            _try(module, who)


def _try(tower: Tower | HiddenStates, who: str) -> None:
    device = next(tower.model.parameters()).device
    ids = torch.ones(2, 8, dtype=torch.long, device=device)
    try:
        with torch.inference_mode():
            tower(ids, torch.ones_like(ids))
    except RuntimeError as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        needed = "Triton" if device.type == "cuda" else "a C++ compiler such as g++"
        raise LearnedSparseError(
            f"{who}: torch.compile failed ({reason}); it needs {needed}: install that, or leave --compile out"
        ) from error
