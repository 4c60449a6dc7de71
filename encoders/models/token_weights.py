"""Modules that architectures share: bags of words, learned weights of a text's own tokens, and pooled positions."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from encoders.backbone.towers import HiddenStates, LanguageModel, TermTable
from encoders.checkpoints.tokenizer import Vocabulary
from encoders.head.vocabulary_head import Shares, first_largest, first_occurrences
from learned_sparse.core.errors import LearnedSparseError

SpecialTokens = Literal["none", "unknown", "separators", "all"]
"""Special tokens in a bag of words: none; [UNK] only (naver's ``clean_bow``); [UNK] and every [SEP] (uniCOIL of
Pyserini); all that the tokenizer adds."""
Repeats = Literal["max", "first", "mean", "sum"]
"""Weight of a term that occurs several times: the largest, first or mean score of its positions, or their sum."""
Weighting = Literal["binary", "tf", "idf", "learned"]
"""Weights of queries without a network; see ``BagOfWords``."""
TABLE_WEIGHTINGS = ("idf", "learned")
QUERY_WEIGHTS = "query_weights"
"""Name of the tower that is the table of queries."""
Activation = Literal["relu", "none"]
"""``none``: training sees scores below zero, which get a gradient. Encoded weights are cut at zero in both cases,
because an index holds no negative weights."""


class BagOfWords(nn.Module):
    """The tokens of the text, without a network.

    ``binary``: weight 1 for each; ``tf``: its count in the truncated text. ``idf`` and ``learned``: its weight in
    ``table``, which holds inverse document frequencies of the training data, or what training made of them.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        weighting: Weighting = "binary",
        special_tokens: SpecialTokens = "none",
        table: TermTable | None = None,
    ) -> None:
        super().__init__()
        self.weighting, self.table = weighting, table
        if (table is not None) != (weighting in TABLE_WEIGHTINGS):
            raise TypeError(f"weighting {weighting!r} with a table: {table is not None}")
        self._counts: Tensor
        self.register_buffer("_counts", counted_tokens(vocabulary, special_tokens), persistent=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``."""
        literal = self.literal_positions(input_ids, attention_mask).float()
        bags = literal.new_zeros(len(input_ids), len(self._counts)).scatter_add(1, input_ids, literal)
        bags = bags if self.weighting == "tf" else bags.clamp(max=1)
        return bags if self.table is None else bags * self.table()

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """Every occurrence for ``tf``, else the first one."""
        literal = self.literal_positions(input_ids, attention_mask)
        repeats: Literal["first", "sum"] = "sum" if self.weighting == "tf" else "first"
        weights = literal.float() if self.table is None else literal * self.table()[input_ids]
        return [merged_shares(weights, input_ids, literal, columns, repeats)]

    @property
    def kind(self) -> Literal["binary", "tf", "table"]:
        """``weighting`` as notes of checkpoints name it."""
        return self.weighting if self.weighting in ("binary", "tf") else "table"

    @property
    def excluded(self) -> tuple[int, ...]:
        """The token ids that are never in the bag."""
        return tuple((~self._counts).nonzero().flatten().tolist())

    def literal_positions(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """True at the positions whose token is in the bag, ``(batch, tokens)``; never at padding, whatever its id."""
        return attention_mask.bool() & self._counts[input_ids]


def check_weighting(query: str, weighting: Weighting) -> None:
    """Raise if queries with a network have a table."""
    if query != "bag-of-words" and weighting in TABLE_WEIGHTINGS:
        raise LearnedSparseError(f"query_weighting: {weighting} needs query: bag-of-words, not {query}")


def counted_tokens(vocabulary: Vocabulary, special_tokens: SpecialTokens) -> Tensor:
    """Which token ids a bag of words holds, ``(vocabulary,)`` of bool."""
    kept = {"unknown": {vocabulary.unknown_id}, "separators": {vocabulary.unknown_id, vocabulary.separator_id}}
    if special_tokens == "all":
        excluded: tuple[int, ...] = ()
    else:
        excluded = tuple(token for token in vocabulary.special_ids if token not in kept.get(special_tokens, set()))
    return torch.ones(len(vocabulary), dtype=torch.bool).index_fill_(0, torch.tensor(excluded, dtype=torch.long), False)


def unblocked_terms(vocabulary: Vocabulary, *, block_special_terms: bool | Literal["special"]) -> Tensor:
    """Which dimensions may have weight, ``(vocabulary,)`` of bool; ``True`` blocks special and unused terms."""
    unused = vocabulary.unused_ids if block_special_terms is True else ()
    blocked = vocabulary.special_ids + unused if block_special_terms else ()
    return torch.ones(len(vocabulary), dtype=torch.bool).index_fill_(0, torch.tensor(blocked, dtype=torch.long), False)


class PooledTower(nn.Module):
    """A tower, and the positions of a text that are pooled."""

    def __init__(self, tower: nn.Module, vocabulary: Vocabulary, *, pool_special_tokens: bool) -> None:
        """``pool_special_tokens``: whether [CLS] and [SEP] are pooled too; [UNK] always is."""
        super().__init__()
        self.tower = tower
        self._pooled_tokens: Tensor
        special: SpecialTokens = "all" if pool_special_tokens else "unknown"
        self.register_buffer("_pooled_tokens", counted_tokens(vocabulary, special), persistent=False)

    def pooled_positions(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """True at the positions that are pooled, ``(batch, tokens)``."""
        return attention_mask.bool() & self._pooled_tokens[input_ids]


class PooledMaskedLM(PooledTower):
    """A masked-LM tower whose logits are pooled over positions."""

    tower: LanguageModel

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Hidden states, pooled positions, decoder weight and bias: the first arguments of ``encoders.head.pool``."""
        pooled = self.pooled_positions(input_ids, attention_mask)
        return self.tower(input_ids, attention_mask), pooled, self.tower.decoder_weight, self.tower.decoder_bias


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
        self._terms, self._repeats, self._relu = len(vocabulary), repeats, activation == "relu"
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

    def _scores(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scores, ids, and which positions are terms, each ``(batch, tokens)`` of the part that is read."""
        if not self._expanded and self._separator is not None:
            input_ids, attention_mask = own_text(input_ids, attention_mask, self._separator)
        scores = self.tower.head(self.tower(input_ids, attention_mask)).squeeze(-1)
        counted = self.bag_of_words.literal_positions(input_ids, attention_mask)
        if self._separators and self._separator is not None:
            counted = counted | between_texts(input_ids, attention_mask, self._separator)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
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


def merged_shares(scores: Tensor, input_ids: Tensor, counted: Tensor, columns: Tensor, repeats: Repeats) -> Shares:
    """Shares for ``merge`` of one text; the first three are ``(1, tokens)``.

    A term without positive weight has no shares.
    """
    (position,) = (counted[0] & torch.isin(input_ids[0], columns)).nonzero(as_tuple=True)
    column, value = input_ids[0, position], scores[0, position]
    if repeats == "max":
        _, position, column, value, _ = first_largest(position, column, value)
    elif repeats == "first":
        _, position, column, _, _ = first_largest(position, column, -position)
        value = scores[0, position]
    elif repeats == "mean":
        value = value / torch.bincount(column)[column]
    size = int(column.max()) + 1 if len(column) else 0
    totals = value.new_zeros(size).index_add_(0, column, value)
    kept = (totals[column] > 0) & (value != 0)
    return Shares("", position[kept], column[kept], value[kept])


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
