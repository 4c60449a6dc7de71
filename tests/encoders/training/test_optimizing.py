"""Optimizer state and random numbers on the model's device: checked on the meta device and on a fake one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from encoders.backbone.device import random_state
from encoders.training.learner import over_batch
from encoders.training.session import load_state, save_state
from tests.fake_device import SECOND, FakeDevice

CPU, META = torch.device("cpu"), torch.device("meta")


def saved(path: Path, random_states: Tensor) -> Path:
    """A saved state of a linear layer, trained with Adam for five steps."""
    module = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    for _ in range(5):
        module(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    save_state(path, module, optimizer, random_states, {})
    return path


@pytest.mark.parametrize(("fused", "device"), [(True, META), (False, CPU)])
def test_a_resumed_fused_optimizer_counts_on_the_device(fused: bool, device: torch.device, tmp_path: Path) -> None:
    module = nn.Linear(3, 2, device=META)
    optimizer = torch.optim.AdamW(module.parameters())
    optimizer.param_groups[0]["fused"] = fused
    load_state(saved(tmp_path, random_state(CPU)[None]), module, optimizer, CPU, 0, 1)
    for parameter in module.parameters():
        state = optimizer.state[parameter]
        assert state["step"].device == device
        assert state["exp_avg"].device == state["exp_avg_sq"].device == META


@pytest.mark.parametrize(("device", "processes", "warns"), [("cpu", 1, False), ("cpu", 2, True), (SECOND, 1, True)])
@pytest.mark.usefixtures("fake_device")
def test_random_numbers_that_are_not_restored_are_reported(
    device: str, processes: int, warns: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module = nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(module.parameters())
    state = saved(tmp_path, random_state(CPU)[None])
    load_state(state, module, optimizer, torch.device(device), 0, processes)
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == warns
    assert all(warning.startswith(f"{state}: saved with another") for warning in warnings)


def test_gradient_caching_repeats_the_dropout_of_the_models_device(fake_device: FakeDevice) -> None:
    parameter, masks = nn.Parameter(torch.ones(3)), []

    def forward(*_: Any) -> dict[str, Tensor]:
        masks.append(fake_device.rand(SECOND))
        return {"queries": (parameter * masks[-1])[None]}

    def loss(outputs: dict[str, Tensor]) -> Any:
        return outputs["queries"].sum(), {}

    current = fake_device.generators[0].get_state()
    session: Any = SimpleNamespace(num_processes=1, autocast=nullcontext, device=torch.device(SECOND))
    over_batch(SimpleNamespace(outputs=forward), [(), ()], loss, session)  # type: ignore[list-item]
    assert len(masks) == 4
    assert masks[0].equal(masks[2])
    assert masks[1].equal(masks[3])
    assert not masks[0].equal(masks[1])
    torch.testing.assert_close(parameter.grad, masks[0] + masks[1])
    assert fake_device.generators[0].get_state().equal(current)
