"""What every tower of a model offers, whatever it computes, and how a kind of tower comes into being."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import nn


class Tower(Protocol):
    """A network with its own folder in a checkpoint; also an ``nn.Module``, called with ids and attention mask."""

    @property
    def vocabulary_size(self) -> int:
        """Of the tokenizer's vocabulary that it reads."""

    @property
    def longest_input(self) -> int | None:
        """The most tokens the position embeddings allow, if they set a limit."""

    def save(self, folder: Path) -> None:
        """Write it as safetensors and JSON."""

    def parameters(self) -> Any:
        """As ``nn.Module`` has it."""

    def new_parameters(self) -> list[nn.Parameter]:
        """Those that no pretrained backbone brought: they may want a higher learning rate."""


@dataclass(frozen=True)
class TowerKind:
    """How towers of one kind are read from a checkpoint, and made anew from a backbone."""

    load: Callable[[Path], Any]
    """From ``towers/<name>/`` of a checkpoint."""
    from_backbone: Callable[..., Any]
    """``(folder or Hub id, *, revision, num_hidden_layers, output_bias)``; random numbers are torch's own."""
