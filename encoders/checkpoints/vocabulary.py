"""The tokenizer's vocabulary as dimensions: how each is spelt, and which are special."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from learned_sparse.core import unfit_reason

_UNUSED = re.compile(r"\[unused\d+\]")


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Dimension ``j`` of a weight vector is the token with id ``j``, spelt ``terms[j]`` (empty where there is none)."""

    terms: Sequence[str]
    special_ids: tuple[int, ...]
    """What the tokenizer adds or puts in the place of text: [CLS], [SEP], [PAD], [MASK] and the unknown token."""
    unknown_id: int | None
    """[UNK]: special, but it stands for text."""
    unused_ids: tuple[int, ...]
    """BERT's ``[unused17]``."""
    separator_id: int | None = None
    """[SEP]: ends a text, and then the text that expands it."""

    def __len__(self) -> int:
        return len(self.terms)

    @classmethod
    def from_tokenizer(cls, tokenizer: Any, size: int) -> Vocabulary:
        """The ``size`` dimensions of a model's output; a model may have more than its tokenizer has tokens."""
        terms = spellings(tokenizer.get_vocab(), size)
        special = tuple(sorted(token for token in tokenizer.all_special_ids if token < size))
        unused = tuple(token for token, term in enumerate(terms) if _UNUSED.fullmatch(term))
        return cls(terms, special, tokenizer.unk_token_id, unused, tokenizer.sep_token_id)


def spellings(vocabulary: Mapping[str, int], size: int) -> list[str]:
    """The terms of ids 0 to ``size - 1`` of a tokenizer's ``vocabulary``; empty where it has none.

    >>> spellings({"wing": 2, "lift": 0, "drag": 3}, 3)
    ['lift', '', 'wing']
    """
    terms = [""] * size
    for term, token in vocabulary.items():
        if token < size:
            terms[token] = term
    return terms


def unwritable_ids(terms: Sequence[str]) -> list[int]:
    """Dimensions whose term Lucene cannot hold."""
    return [number for number, term in enumerate(terms) if unfit_reason(term)]
