"""Learned weights of a text's own tokens, with or without its expansion, which several architectures have."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from encoders.backbone.hidden_states import HiddenStates
from encoders.checkpoints.tokenizer import SpecialTokens, Vocabulary
from encoders.head.shares import Shares, merged_shares
from encoders.head.vocabulary_head import first_occurrences
from encoders.models.bags import BagOfWords
from learned_sparse.core.errors import LearnedSparseError

Repeats = Literal["max", "first", "mean", "sum"]
"""Weight of a term that occurs several times: the largest, first or mean score of its positions, or their sum."""
Activation = Literal["relu", "none"]
"""``none``: training sees scores below zero, which get a gradient. Encoded weights are cut at zero in both cases,
because an index holds no negative weights."""


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
        """``separators``: whether the [SEP] between a text and its expansion is weighted.

        ``expanded``: whether the expansion is read.
        """
        super().__init__()
        self.tower = tower
        self.bag_of_words = BagOfWords(vocabulary, "binary", special_tokens)
        self._terms, self._repeats, self._relu = len(vocabulary.terms), repeats, activation == "relu"
        self._separator = None if expanded and not separators else separator_of(vocabulary)
        self._separators, self._expanded = separators, expanded

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``, at least float32."""
        scores, input_ids, counted = self._scores(input_ids, attention_mask)
        weights = merge(scores, input_ids, counted, self._terms, self._repeats)
        return weights if self._relu or self.training else weights.relu()

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """The share of each token in the weights ``columns`` of one text."""
        return [merged_shares(*self._scores(input_ids, attention_mask), columns, self._repeats)]

    def token_scores(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The score of the head at each position ``(batch, tokens)``, at least float32; it may be negative."""
        (states,) = self.tower(input_ids, attention_mask)
        scores: Tensor = self.tower.head(states).squeeze(-1)
        return scores.to(torch.promote_types(scores.dtype, torch.float32))

    def _scores(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores, ids, and which positions are terms, each ``(batch, tokens)`` of the part that is read."""
        if not self._expanded and self._separator is not None:
            input_ids, attention_mask = own_text(input_ids, attention_mask, self._separator)
        scores = self.token_scores(input_ids, attention_mask)
        counted = self.bag_of_words.literal_positions(input_ids, attention_mask)
        if self._separators and self._separator is not None:
            counted = counted | between_texts(input_ids, attention_mask, self._separator)
        return scores.relu() if self._relu else scores, input_ids, counted


def merge(scores: Tensor, input_ids: Tensor, counted: Tensor, terms: int, repeats: Repeats) -> Tensor:
    """Weights ``(batch, terms)``: the scores of the ``counted`` positions by token; arguments ``(batch, tokens)``.

    Terms without such a position are 0; scores may be negative.
    """
    if repeats == "max":
        lowest = scores.new_full((len(scores), terms), float("-inf"))
        largest = lowest.scatter_reduce(1, input_ids, scores.masked_fill(~counted, float("-inf")), "amax")
        return largest.masked_fill(largest == float("-inf"), 0.0)
    if repeats == "first":
        counted = first_occurrences(input_ids, counted)
    zeros = scores.new_zeros(len(scores), terms)
    sums = zeros.scatter_add(1, input_ids, scores.masked_fill(~counted, 0.0))
    if repeats != "mean":
        return sums
    return sums / zeros.scatter_add(1, input_ids, counted.to(scores.dtype)).clamp(min=1)


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


def own_text(input_ids: Tensor, attention_mask: Tensor, separator: int) -> tuple[Tensor, Tensor]:
    """Ids and mask ``(batch, tokens)`` of ``[CLS] text [SEP]`` in ``[CLS] text [SEP] expansion [SEP]``.

    The result is as wide as the longest text needs.

    >>> own_text(torch.tensor([[1, 7, 2, 8, 2], [1, 2, 0, 0, 0]]), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]), 2)
    (tensor([[1, 7, 2],
            [1, 2, 0]]), tensor([[1, 1, 1],
            [1, 1, 0]]))
    """
    real = attention_mask.bool()
    ends = (input_ids == separator) & real
    in_text = real & (ends.cumsum(1) - ends.long() == 0)
    columns = in_text.any(0).nonzero()
    width = int(columns.max()) + 1 if len(columns) else 1
    return input_ids[:, :width], in_text[:, :width].to(attention_mask.dtype)


def between_texts(input_ids: Tensor, attention_mask: Tensor, separator: int) -> Tensor:
    """True at the separators that are followed by further tokens, ``(batch, tokens)``: not at the last one."""
    real = attention_mask.bool()
    from_here = real.long().flip(1).cumsum(1).flip(1)
    return (input_ids == separator) & real & (from_here > 1)


def separator_of(vocabulary: Vocabulary) -> int:
    """The token id of [SEP]; an error if the tokenizer has none."""
    if vocabulary.separator_id is None:
        raise LearnedSparseError(
            "this tokenizer has no separator token, so a text and its expansion cannot be told apart; "
            "let all components read both, or none of them (setting expanded)"
        )
    return vocabulary.separator_id
