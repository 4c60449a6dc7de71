"""Device functions, with a device module of our own in place of a GPU's."""

from __future__ import annotations

import os

import pytest
import torch

from encoders.backbone import device
from encoders.backbone.device import (
    choose_device,
    process_settings,
    random_state,
    set_random_state,
)
from tests.fake_device import SECOND, FakeDevice

CPU = torch.device("cpu")


def test_random_numbers_of_the_models_device_are_repeated(fake_device: FakeDevice) -> None:
    state = random_state(SECOND)
    on_cpu, on_device = torch.rand(3), fake_device.rand(SECOND)
    before = fake_device.generators[0].get_state()
    assert set_random_state(state, SECOND)
    assert torch.rand(3).equal(on_cpu)
    assert fake_device.rand(SECOND).equal(on_device)
    assert fake_device.generators[0].get_state().equal(before)  # the current device is another one


@pytest.mark.usefixtures("fake_device")
def test_a_random_state_of_another_kind_of_device_is_restored_on_the_cpu_only() -> None:
    state, on_cpu = random_state(CPU), torch.rand(3)
    assert not set_random_state(state, SECOND)
    assert torch.rand(3).equal(on_cpu)
    assert not set_random_state(random_state(SECOND), CPU)


@pytest.mark.parametrize(
    ("precision", "name", "expected"),
    [
        ("fp32", "cuda:1", "high"),
        ("bf16", "cuda", "high"),
        ("fp32-strict", "cuda", "highest"),
        ("fp32", "cpu", "medium"),  # as before
        ("fp32-strict", "cpu", "highest"),
    ],
)
def test_process_settings(precision: str, name: str, expected: str) -> None:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with process_settings(precision, torch.device(name)):
            assert torch.get_float32_matmul_precision() == expected
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize(("precision", "fused"), [("bf16", False), ("fp32", True)])
def test_attention_on_a_cpu(precision: str, fused: bool) -> None:
    data_type = torch.bfloat16 if precision == "bf16" else torch.float32
    query = torch.randn(2, 2, 8, 16, dtype=data_type, requires_grad=True)

    def operations() -> set[str]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
        return {event.key for event in profile.key_averages() if "flash" in event.key}

    with process_settings(precision, CPU):
        assert bool(operations()) == fused
    assert operations()  # as before


def test_torch_uses_no_more_threads_than_there_are_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    monkeypatch.setattr(device, "processors", lambda: 2)
    choose_device("cpu")
    assert numbers == [2]
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "64")
    choose_device("cpu")
    assert numbers == [2]
