"""Weights that learn nothing: the tokens of the text itself."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from encoders.checkpoints import Vocabulary
from encoders.head import Shares, merged_shares

SpecialTokens = Literal["none", "unknown", "all"]
"""Which special tokens a bag of words holds: none; [UNK] only (naver's ``clean_bow``); all that the tokenizer adds."""


class BagOfWords(nn.Module):
    """``binary``: 1 for each token of the text; ``tf``: how often it occurs (in the truncated text)."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        weighting: Literal["binary", "tf"] = "binary",
        special_tokens: SpecialTokens = "none",
    ) -> None:
        super().__init__()
        self.weighting = weighting
        self._counts: Tensor
        self.register_buffer("_counts", counts(vocabulary, special_tokens), persistent=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``."""
        literal = self.literal_positions(input_ids, attention_mask).float()
        bags = literal.new_zeros(len(input_ids), len(self._counts)).scatter_add(1, input_ids, literal)
        return bags.clamp(max=1) if self.weighting == "binary" else bags

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """Of ``binary`` the first occurrence, of ``tf`` each one (see ``encoders.head.attribution``)."""
        literal = self.literal_positions(input_ids, attention_mask)
        repeats: Literal["first", "sum"] = "first" if self.weighting == "binary" else "sum"
        return [merged_shares(literal.float(), input_ids, literal, columns, repeats)]

    @property
    def excluded(self) -> tuple[int, ...]:
        """The token ids that are never in the bag."""
        return tuple((~self._counts).nonzero().flatten().tolist())

    def literal_positions(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """True at the positions whose token is in the bag, ``(batch, tokens)``; padding never is, whatever its id."""
        return attention_mask.bool() & self._counts[input_ids]


def counts(vocabulary: Vocabulary, special_tokens: SpecialTokens) -> Tensor:
    """Which token ids a bag of words holds, ``(vocabulary,)`` of bool."""
    excluded = {"none": vocabulary.special_ids, "all": ()}.get(
        special_tokens, tuple(token for token in vocabulary.special_ids if token != vocabulary.unknown_id)
    )
    return torch.ones(len(vocabulary), dtype=torch.bool).index_fill_(0, torch.tensor(excluded, dtype=torch.long), False)


def unblocked(vocabulary: Vocabulary, *, block_special_terms: bool) -> Tensor:
    """Which dimensions may have weight, ``(vocabulary,)`` of bool: all but, if asked, special and unused ones."""
    blocked = vocabulary.special_ids + vocabulary.unused_ids if block_special_terms else ()
    return torch.ones(len(vocabulary), dtype=torch.bool).index_fill_(0, torch.tensor(blocked, dtype=torch.long), False)
