"""One thread: these models are so small that handing work to a second one costs more than the work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from torch import Tensor

    from encoders.head.token_layout import Layout


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["as on a CPU", "as on a GPU"])
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the vocabulary head does on CPUs, and what it does on GPUs, on the CPU."""
    from encoders.head import token_layout, vocabulary_head

    if request.param == "as on a GPU":

        def rectangle(hidden: Tensor, mask: Tensor) -> tuple[Layout, Tensor]:
            texts, tokens, width = hidden.shape
            return token_layout.Rectangle(texts, tokens, mask.bool()), hidden.reshape(-1, width)

        monkeypatch.setattr(vocabulary_head, "lay_out", rectangle)
