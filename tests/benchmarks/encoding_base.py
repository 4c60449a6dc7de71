"""Documents per second from texts to a JsonVector file with BERT-base's size, beside other toolkits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.benchmarks import encoding
from tests.benchmarks.shapes import BASE, TINY

PEERS = {name: encoding.PEERS[name] for name in ("pyserini", "sentence-transformers", "sentence-transformers, bf16")}


def run(toy: bool) -> dict[str, Any]:
    """As the benchmark ``encoding``, without the plain loop, which would take another minute."""
    return encoding.measure(TINY, 8, 1, PEERS) if toy else encoding.measure(BASE, 64, 5, PEERS)


def markdown(result: Mapping[str, Any]) -> str:
    """Table of contenders with speeds, ratios and agreement."""
    return encoding.markdown(result)
