"""Weights for the tokens of a text itself: one score for each position, merged into one weight for each term."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from encoders.backbone import HiddenStates
from encoders.checkpoints import Vocabulary
from encoders.head import Shares, first_occurrences, merged_shares
from encoders.models.bag_of_words import BagOfWords, SpecialTokens
from encoders.models.expanded_texts import between_texts, own_text, separator_of

Repeats = Literal["max", "first", "mean", "sum"]
"""What a term that occurs several times gets: the largest, first or mean score of its positions, or their sum."""
Activation = Literal["relu", "none"]
"""``none``: without ReLU, scores below zero are seen (and get a gradient) in training. Encoded weights are cut at zero
all the same: an index holds none below."""


def two_layer_head(hidden_size: int, dropout: float) -> nn.Sequential:
    """Dropout, linear, ReLU, linear to one score: SpaDE's f_MLP (Eq. 4), DeepImpact's score encoder."""
    head = nn.Sequential(nn.Dropout(dropout), nn.Linear(hidden_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, 1))
    return head.apply(_initialise)


def linear_head(hidden_size: int) -> nn.Linear:
    """One linear layer to one score: uniCOIL, TILDEv2."""
    return nn.Linear(hidden_size, 1).apply(_initialise)


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=0.02)  # as BERT, and as SpaDE's published code
        nn.init.zeros_(module.bias)


class TokenWeights(nn.Module):
    """A tower whose head scores each token; terms that are not in the text weigh 0."""

    def __init__(
        self,
        tower: HiddenStates,
        vocabulary: Vocabulary,
        *,
        repeats: Repeats,
        activation: Activation = "relu",
        special_tokens: SpecialTokens = "none",
        separators: bool = False,
        expanded: bool = True,
    ) -> None:
        """``separators``: also the [SEP] between a text and what expands it. ``expanded``: whether that is read."""
        super().__init__()
        self.tower = tower
        self.bag_of_words = BagOfWords(vocabulary, "binary", special_tokens)
        self._terms, self._repeats, self._relu = len(vocabulary), repeats, activation == "relu"
        self._separator = None if expanded and not separators else separator_of(vocabulary)
        self._separators, self._expanded = separators, expanded

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``, at least float32."""
        scores, input_ids, counted = self._scores(input_ids, attention_mask)
        weights = merge(scores, input_ids, counted, self._terms, self._repeats)
        return weights if self._relu or self.training else weights.relu()

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """What each token gives to the weights ``columns`` of one text (see ``encoders.head.attribution``)."""
        return [merged_shares(*self._scores(input_ids, attention_mask), columns, self._repeats)]

    def _scores(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores, ids, and which positions are terms, each ``(batch, tokens)``, of as much as is read."""
        if not self._expanded and self._separator is not None:
            input_ids, attention_mask = own_text(input_ids, attention_mask, self._separator)
        scores = self.tower.head(self.tower(input_ids, attention_mask)).squeeze(-1)
        counted = self.bag_of_words.literal_positions(input_ids, attention_mask)
        if self._separators and self._separator is not None:
            counted = counted | between_texts(input_ids, attention_mask, self._separator)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        return scores.relu() if self._relu else scores, input_ids, counted


def merge(scores: Tensor, input_ids: Tensor, counted: Tensor, terms: int, repeats: Repeats) -> Tensor:
    """``(batch, terms)``: the scores of the positions that are ``counted``, by token; all ``(batch, tokens)``.

    Terms without such a position are 0; scores may be negative.
    """
    if repeats == "max":
        lowest = scores.new_full((len(scores), terms), float("-inf"))
        largest = lowest.scatter_reduce(1, input_ids, scores.masked_fill(~counted, float("-inf")), "amax")
        return largest.masked_fill(largest == float("-inf"), 0.0)
    if repeats == "first":
        counted = first_occurrences(input_ids, counted)
    none = scores.new_zeros(len(scores), terms)
    sums = none.scatter_add(1, input_ids, scores.masked_fill(~counted, 0.0))
    return sums / none.scatter_add(1, input_ids, counted.to(scores.dtype)).clamp(min=1) if repeats == "mean" else sums
