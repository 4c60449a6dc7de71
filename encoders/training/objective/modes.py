"""Modules behaving as in training, with or without dropout, and a while of evaluation in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from torch import nn


def begin_training(weighers: nn.Module, towers: Mapping[str, nn.Module], *, dropout: bool) -> None:
    """Put ``weighers`` in training mode; without ``dropout`` its towers, where all dropout is, stay in evaluation mode.

    What a weigher does only to finished vectors, such as binarising them, it leaves out in training mode.
    """
    weighers.train()
    if not dropout:
        for tower in towers.values():
            tower.eval()


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """``module`` in evaluation mode; each of its parts goes back to the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training
