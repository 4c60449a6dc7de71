"""SpaDE (Choi et al., CIKM 2022): documents by two towers, term weighting and term expansion; boolean queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from torch import Tensor, nn

from encoders.backbone import MASKED_LM, Tower, TowerKind, hidden_states_kind
from encoders.checkpoints import Vocabulary
from encoders.head import Attributing, Shares, largest_shares, max_pool_entries, pool, pooled_shares, top_k_per_row
from encoders.models.architecture import Architecture, Mixture
from encoders.models.bag_of_words import BagOfWords, SpecialTokens, counts, unblocked
from encoders.models.expanded_texts import own_text, separator_of
from encoders.models.term_pruning import TermPruning
from encoders.models.token_weights import Activation, TokenWeights, two_layer_head
from learned_sparse.core import LearnedSparseError, Side


@dataclass(frozen=True, kw_only=True)
class SpaDESettings:
    """Defaults are the paper's; what its published code does otherwise is named beside each switch."""

    components: Literal["both", "weighting", "expansion"] = "both"
    """Both (Eq. 10), or one alone, as the ablation of Table 6 does."""
    k: int | None = 10
    """Terms that each position may give weight to (Eq. 8); the paper reports 2, 5 and 10. ``null``: all of them, as
    the code trains until its co-training begins."""
    alpha: float = 0.5
    """``(1 - alpha) * weighting + alpha * expansion`` (Eq. 10). The paper finds 0.3 to 0.5 best on validation queries
    and trains jointly with 0.3."""
    repeats: Literal["max", "first", "mean"] = "max"
    """What a term that occurs several times gets of its scores (Eq. 6); the code takes the first."""
    weighting_activation: Activation = "relu"
    """After the MLP. The code has it; in the paper the maximum with the zeros of the one-hot vectors amounts to it."""
    expansion_activation: Activation = "relu"
    """Eq. 7. The code has none until its co-training begins; it matters with ``k: null`` only, for the maximum with the
    zeros that Eq. 8 leaves is never below zero."""
    pool_special_tokens: bool = True
    """Whether [CLS] and [SEP] expand a text too (Eq. 9: yes)."""
    bow_special_tokens: SpecialTokens = "none"
    """Special tokens in queries and among weighted terms: none, for Eq. 4 runs over the text's own 1..|d|."""
    weighting_separators: bool = False
    """Whether the [SEP] between a text and what expands it is weighted like a term, as it is in the code."""
    block_special_terms: bool = False
    """Whether the dimensions of special and ``[unused]`` tokens are always 0. Neither paper nor code does so; queries
    never ask for them, so it saves postings and changes no score."""
    expanded: Literal["both", "weighting", "expansion", "none"] = "both"
    """Who reads ``Document.expanded`` (docT5query's queries); the paper says "each encoder", as the code does."""
    gamma: float = 1.0
    """Terms that have weight in a larger share of documents are pruned (section 3.4); 1: none. Training sets it."""
    frequencies: Mapping[str, float] = field(default_factory=dict)
    """Found in training: the share of documents that each frequent term has weight in."""
    dropout: float = 0.1
    """Before the MLP of the weighting."""


class Expansion(nn.Module):
    """The largest k masked-LM logits of each position, and their maximum over positions (Eq. 7 to 9)."""

    def __init__(self, settings: SpaDESettings, tower: Tower, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.tower = tower
        self._k = None if settings.k is None else min(settings.k, len(vocabulary))
        self._relu = settings.expansion_activation == "relu"
        self._separator = separator_of(vocabulary) if settings.expanded == "weighting" else None
        self._pooled_tokens: Tensor
        self.register_buffer(
            "_pooled_tokens", counts(vocabulary, "all" if settings.pool_special_tokens else "unknown"), persistent=False
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``; with ``k``, logits of a block of positions at a time are all it holds."""
        hidden, pooled, weight, bias = self._states(input_ids, attention_mask)
        if self._k is None:
            return pool(hidden, pooled, weight, bias, pooling="max", relu=self._relu or not self.training)
        # ReLU after the choice of k and before it are one: max_pool_entries never goes below zero
        values, columns = top_k_per_row(hidden[pooled], weight, bias, self._k)
        text = pooled.nonzero()[:, 0]
        return max_pool_entries(values, columns, text, len(input_ids), len(weight))

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """Which token gives the weights ``columns`` of one text (see ``encoders.head.attribution``)."""
        hidden, pooled, weight, bias = self._states(input_ids, attention_mask)
        if self._k is None:
            return [pooled_shares(hidden, pooled, weight, bias, columns, pooling="max")]
        values, found = top_k_per_row(hidden[pooled], weight, bias, self._k)
        return [largest_shares(values, found, pooled.nonzero()[:, 1], columns)]

    def _states(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Hidden states, pooled positions, decoder weight and bias."""
        if self._separator is not None:
            input_ids, attention_mask = own_text(input_ids, attention_mask, self._separator)
        pooled = attention_mask.bool() & self._pooled_tokens[input_ids]
        return self.tower(input_ids, attention_mask), pooled, self.tower.decoder_weight, self.tower.decoder_bias


class Pruned(nn.Module):
    """One component without the terms that are pruned."""

    def __init__(self, unpruned: nn.Module, pruning: TermPruning) -> None:
        super().__init__()
        self.unpruned = unpruned
        """The component before pruning: what terms are counted on."""
        self._pruning = pruning

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``."""
        weights: Tensor = self.unpruned(input_ids, attention_mask)
        return weights * self._pruning.kept

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """What each token gives to the weights ``columns`` of one text (see ``encoders.head.attribution``)."""
        unpruned = cast(Attributing, self.unpruned)
        return unpruned.shares(input_ids, attention_mask, columns[self._pruning.kept[columns]])


class SpaDE(nn.Module):
    """The document side: its components, weighed against each other (Eq. 10)."""

    def __init__(self, settings: SpaDESettings, towers: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        super().__init__()
        allowed = unblocked(vocabulary, block_special_terms=settings.block_special_terms)
        self._pruning = TermPruning(vocabulary, allowed, settings.frequencies, settings.gamma)
        unpruned = {name: _COMPONENTS[name](settings, towers[name], vocabulary) for name in _names(settings)}
        self.components = nn.ModuleDict({name: Pruned(part, self._pruning) for name, part in unpruned.items()})
        """Each alone, of the names "weighting" and "expansion": not multiplied by its share of Eq. 10."""
        self._factors = _factors(settings.alpha) if len(unpruned) > 1 else dict.fromkeys(unpruned, 1.0)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``; a component whose factor is 0 is not computed."""
        first, *second = (
            factor * self.components[name](input_ids, attention_mask)
            for name, factor in self._factors.items()
            if factor > 0
        )
        weights: Tensor = first + second[0] if second else first
        return weights

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """What each token gives to the weights ``columns`` of one text, by component."""
        return [
            share.of_part(name, factor)
            for name, factor in self._factors.items()
            if factor > 0
            for share in cast(Attributing, self.components[name]).shares(input_ids, attention_mask, columns)
        ]

    @property
    def kept(self) -> Tensor:
        """Which terms may have weight, ``(vocabulary,)`` of bool."""
        return self._pruning.kept

    def set_frequencies(self, shares: Tensor, gamma: float) -> None:
        """Prune the terms whose share of documents in ``shares`` ``(vocabulary,)`` is larger than ``gamma``."""
        self._pruning.update(shares, gamma)

    def learned(self) -> dict[str, Any]:
        """The settings that training found: ``gamma`` and ``frequencies``."""
        return self._pruning.learned()


def _weighting(settings: SpaDESettings, tower: Any, vocabulary: Vocabulary) -> nn.Module:
    return TokenWeights(
        tower,
        vocabulary,
        repeats=settings.repeats,
        activation=settings.weighting_activation,
        special_tokens=settings.bow_special_tokens,
        separators=settings.weighting_separators,
        expanded=settings.expanded != "expansion",
    )


_COMPONENTS: Mapping[str, Callable[[SpaDESettings, Any, Vocabulary], nn.Module]] = {
    "weighting": _weighting,
    "expansion": Expansion,
}


def _names(settings: SpaDESettings) -> tuple[str, ...]:
    return tuple(_COMPONENTS) if settings.components == "both" else (settings.components,)


def _factors(alpha: float) -> dict[str, float]:
    return {"weighting": 1 - alpha, "expansion": alpha}


def _towers(settings: SpaDESettings, side: Side) -> tuple[str, ...]:
    return _names(settings) if side == "document" else ()


def _tower(settings: SpaDESettings, name: str) -> TowerKind:
    if name == "expansion":
        return MASKED_LM
    return hidden_states_kind(lambda hidden_size: two_layer_head(hidden_size, settings.dropout), None)


def _weigher(settings: SpaDESettings, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
    if side == "query":
        return BagOfWords(vocabulary, "binary", settings.bow_special_tokens)
    if not 0 <= settings.alpha <= 1:
        raise LearnedSparseError(f"SpaDE: alpha is {settings.alpha}; give a number from 0 (weighting) to 1 (expansion)")
    if settings.k is not None and settings.k < 1:
        raise LearnedSparseError(f"SpaDE: k is {settings.k}; give at least 1 term a position, or null for all")
    return SpaDE(settings, towers, vocabulary)


def _mixtures(settings: SpaDESettings) -> list[Mixture]:
    """The grid of the paper's section 4."""
    if settings.components != "both":
        return []
    return [Mixture({"alpha": tenths / 10}, _factors(tenths / 10)) for tenths in range(11)]


SPADE = Architecture(
    settings=SpaDESettings,
    towers=_towers,
    weigher=_weigher,
    scale=lambda _, side: 1.0 if side == "query" else None,
    tower=_tower,
    uses_expanded=lambda settings: settings.expanded in {"both", *_names(settings)},
    mixtures=_mixtures,
    changeable=frozenset({"components", "k", "alpha", "gamma"}),
)
