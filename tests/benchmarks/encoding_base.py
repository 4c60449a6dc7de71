"""Documents a second from texts to a JsonVector file, BERT-base's shape: this toolkit beside its peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.benchmarks import encoding
from tests.benchmarks.shapes import BASE, TINY

PEERS = {name: encoding.PEERS[name] for name in ("pyserini", "sentence-transformers", "sentence-transformers, bf16")}


def run(toy: bool) -> dict[str, Any]:
    """As the benchmark ``encoding``, without the plain loop: it would take another minute."""
    return encoding.measure(TINY, 8, 1, PEERS) if toy else encoding.measure(BASE, 64, 5, PEERS)


def markdown(result: Mapping[str, Any]) -> str:
    """A table of contenders and what they are compared on."""
    return encoding.markdown(result)
