"""A device module with random numbers, for tests of what a GPU's would do."""

from __future__ import annotations

import torch
from torch import Tensor

SECOND = torch.device("privateuseone", 1)  # the type that torch keeps for devices of others


class FakeDevice:
    """Two devices; device 0 is the current one. Their states have another size than the CPU's, as those of GPUs."""

    def __init__(self) -> None:
        self.generators = [torch.Generator().manual_seed(seed) for seed in (10, 11)]

    def rand(self, device: torch.device) -> Tensor:
        """Three random numbers of ``device``."""
        return torch.rand(3, generator=self.generators[device.index])

    def get_rng_state(self, device: torch.device | int = 0) -> Tensor:
        """As ``torch.cuda.get_rng_state``."""
        return torch.cat([self.generators[_index(device)].get_state(), torch.zeros(16, dtype=torch.uint8)])

    def set_rng_state(self, state: Tensor, device: torch.device | int = 0) -> None:
        """As ``torch.cuda.set_rng_state``."""
        self.generators[_index(device)].set_state(state[:-16].clone())


def _index(device: torch.device | int) -> int:
    return device if isinstance(device, int) else device.index or 0
