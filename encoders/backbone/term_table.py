"""A tower without a network: one weight for each term, which training changes or sets."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as from_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from encoders.backbone.pretrained import TowerKind, check_finite, pretrained_config
from encoders.checkpoints import TABLE, read_table
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import atomic_write


class TermTable(nn.Module):
    """Weights ``(vocabulary,)``, 1 at first. A weight below zero counts as 0, and the term then learns nothing more."""

    longest_input: int | None = None

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(size))

    @property
    def vocabulary_size(self) -> int:
        """The number of terms."""
        return len(self.weights)

    def forward(self) -> Tensor:
        """The weights, ``(vocabulary,)``, none below zero."""
        return torch.relu(self.weights)

    def new_parameters(self) -> list[nn.Parameter]:
        """The weights: no backbone has them, and they need a higher learning rate."""
        return [self.weights]

    def save(self, folder: Path) -> None:
        """Write the weights, which are read without torch."""
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / TABLE) as file:
            file.write(to_safetensors({"weights": self().detach().float().cpu().contiguous()}))


def _load(folder: Path) -> TermTable:
    weights = _weights(folder) if (folder / TABLE).exists() else torch.from_numpy(read_table(folder))
    table = TermTable(len(weights))
    with torch.no_grad():
        table.weights.copy_(weights)
    return table


def _weights(folder: Path) -> Tensor:
    try:
        content = from_safetensors((folder / TABLE).read_bytes())
        weights = content["weights"]
    except (OSError, SafetensorError, KeyError) as error:
        raise LearnedSparseError(
            f"{folder / TABLE}: no table of weights ({error}); copy the checkpoint again"
        ) from error
    check_finite(content, folder / TABLE)
    return weights


def _from_backbone(
    name: str | Path, *, revision: str | None = None, num_hidden_layers: int | None = None, output_bias: float = 0.0
) -> TermTable:
    del output_bias  # there is no network
    _, config = pretrained_config(name, revision, num_hidden_layers)
    return TermTable(config.vocab_size)


TERM_TABLE = TowerKind(load=_load, from_backbone=_from_backbone)
