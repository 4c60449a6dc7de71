"""Fixtures of these tests. They use one thread, which is fastest for models this small."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.fake_device import FakeDevice


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _second_device() -> Iterator[None]:
    if "TEST_DEVICE" not in os.environ:
        yield
        return
    from tests import second_device

    with second_device.start():
        yield


@pytest.fixture
def fake_device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """Torch's module for every device but the CPU."""
    import torch

    from tests.fake_device import FakeDevice

    module = FakeDevice()
    monkeypatch.setattr(torch, "get_device_module", lambda _: module)
    return module


@pytest.fixture(params=["as on a CPU", "as on a GPU"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test of the vocabulary head on the CPU, once with the row layout of CPUs and once with that of GPUs."""
    from encoders.head.vocabulary_head import TiledScores

    if request.param == "as on a GPU":
        with_padding = functools.partialmethod(TiledScores.__init__, drop_padding=False)
        monkeypatch.setattr(TiledScores, "__init__", with_padding)
