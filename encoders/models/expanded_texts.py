"""Where a text ends and what expands it begins, in ``[CLS] text [SEP] expanded [SEP]``."""

from __future__ import annotations

from torch import Tensor

from encoders.checkpoints import Vocabulary
from learned_sparse.core import LearnedSparseError


def own_text(input_ids: Tensor, attention_mask: Tensor, separator: int) -> tuple[Tensor, Tensor]:
    """Ids and mask ``(batch, tokens)`` up to each text's first separator, no wider than the longest needs.

    >>> import torch
    >>> own_text(torch.tensor([[1, 7, 2, 8, 2], [1, 2, 0, 0, 0]]), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]), 2)
    (tensor([[1, 7, 2],
            [1, 2, 0]]), tensor([[1, 1, 1],
            [1, 1, 0]]))
    """
    real = attention_mask.bool()
    ends = (input_ids == separator) & real
    own = real & (ends.cumsum(1) - ends.long() == 0)
    used = own.any(0).nonzero()
    width = int(used.max()) + 1 if len(used) else 1
    return input_ids[:, :width], own[:, :width].to(attention_mask.dtype)


def between_texts(input_ids: Tensor, attention_mask: Tensor, separator: int) -> Tensor:
    """True at the separators that more tokens follow, ``(batch, tokens)``: not at the one that ends the input."""
    real = attention_mask.bool()
    from_here = real.long().flip(1).cumsum(1).flip(1)
    return (input_ids == separator) & real & (from_here > 1)


def separator_of(vocabulary: Vocabulary) -> int:
    """The token id of [SEP]; an error if the tokenizer has none."""
    if vocabulary.separator_id is None:
        raise LearnedSparseError(
            "this tokenizer has no separator token, so a text and its expanded text cannot be told apart; "
            "let all of the model read both, or neither (setting expanded)"
        )
    return vocabulary.separator_id
