"""A text with the text that expands it, as the two sequences of a pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from learned_sparse.core import EXPANDED


def pair_of(text: str) -> str | tuple[str, str]:
    r"""``(text, expanded)`` if there is some expanded text, else just the text.

    >>> pair_of("hives"), pair_of("hives\x1fwhat are hives")
    ('hives', ('hives', 'what are hives'))
    """
    own, mark, expanded = text.partition(EXPANDED)
    return (own, expanded) if mark else own


def tokenize_texts(tokenizer: Callable[..., Any], texts: Sequence[str], **options: Any) -> Any:
    """What ``tokenizer`` makes of ``texts`` (see ``Document.with_expanded``): ``[CLS] text [SEP] expanded [SEP]``.

    Texts without expanded text are read as they always are. ``truncation=True`` cuts the longer part of a pair first.
    """
    return tokenizer([pair_of(text) for text in texts], **options)
