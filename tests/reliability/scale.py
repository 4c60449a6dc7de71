"""Size of the reliability tests: small in CI, whole in ``make test-faults`` (``RELIABILITY=full``)."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from learned_sparse.core.errors import LearnedSparseError

FULL = os.environ.get("RELIABILITY") == "full"
generated = settings(max_examples=2_000 if FULL else 100, suppress_health_check=list(HealthCheck))
"""Number of inputs that a property is tried with."""


@st.composite
def replaced(draw: st.DrawFn, content: Any, values: list[Any]) -> Any:
    """JSON or YAML ``content`` with one value of it, at any depth, removed or replaced by one of ``values``."""
    whole = inner = copy.deepcopy(content)
    parent, key = whole, next(iter(whole))
    while isinstance(inner, dict | list) and inner and (inner is whole or draw(st.integers(0, 2))):
        parent, key = inner, draw(st.sampled_from(list(inner) if isinstance(inner, dict) else range(len(inner))))
        inner = parent[key]
    parent[key] = draw(st.sampled_from([*values, [inner], {"x": inner}]))
    if draw(st.integers(0, 4)) == 0:
        del parent[key]
    return whole


def damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """``whole`` without its end, or with one bit flipped."""

    def damage(at: int, bit: int) -> bytes:
        return whole[:at] + (bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] if bit < 8 else b"")

    return st.builds(damage, st.integers(0, len(whole) - 1), st.integers(0, 8))


def refusal(read: Callable[..., Any], *arguments: Any) -> str | None:
    """The message of ``LearnedSparseError``, which must be one short line; None if ``read(*arguments)`` raises none."""
    try:
        read(*arguments)
    except LearnedSparseError as error:
        message = str(error)
    else:
        return None
    assert "\n" not in message
    assert 0 < len(message) < 2_000
    return message
