"""What may be asked of an encoder: lengths, numbers of terms, and changes to the checkpoint's settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from learned_sparse.core import LearnedSparseError


def check_sizes(who: str, max_length: int, top_k: int | None, longest: int | None = None) -> None:
    """Raise, for ``who``, if so many tokens or terms cannot be; ``longest`` is what the position embeddings hold."""
    if max_length < 3 or (longest is not None and max_length > longest):
        raise LearnedSparseError(f"{who}: max length {max_length}; give 3 to {longest or 'any number of'} tokens")
    if top_k is not None and top_k < 1:
        raise LearnedSparseError(f"{who}: top k {top_k}; give at least 1, or leave it out to keep all terms")


def changed_keys(
    who: str, before: Mapping[str, Any], after: Mapping[str, Any], changeable: Iterable[str]
) -> frozenset[str]:
    """The settings that differ; one that must not is an error naming those that may."""
    changed = frozenset(key for key in after if key not in before or after[key] != before[key])
    for key in sorted(changed - set(changeable)):
        allowed = ", ".join(sorted(changeable)) or "nothing"
        raise LearnedSparseError(
            f"{who}: {key!r} belongs to how the model was trained and cannot be changed; what can be: {allowed}"
        )
    return changed
