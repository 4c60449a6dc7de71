"""The refusal of an input: one line that a user can act on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from learned_sparse.core.errors import LearnedSparseError


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
