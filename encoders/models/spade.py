"""SpaDE (Choi et al., CIKM 2022): documents by two towers, term weighting and term expansion; boolean queries."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from encoders.backbone.hidden_states import HiddenStatesKind, TowerKind
from encoders.backbone.towers import LanguageModel
from encoders.checkpoints.notes import Weighting
from encoders.checkpoints.tokenizer import SpecialTokens, Vocabulary
from encoders.head.shares import Shares, pooled_shares
from encoders.head.token_top_k import largest_shares, max_pool_entries, top_k_per_row
from encoders.head.vocabulary_head import pool
from encoders.models.architecture import Architecture, PooledTower
from encoders.models.objectives import Labels, Mixture, Objective, TermWeighers, Tokens
from encoders.models.token_weights import Activation, TokenWeights, own_text, separator_of, two_layer_head
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

if TYPE_CHECKING:
    from encoders.training.recipe import Stage

COMPONENTS = ("weighting", "expansion")
MIN_FREQUENCY = 0.05
"""Smallest share of documents that is recorded, so the smallest gamma of a finished model; the paper tries 0.1 to
0.9."""
_MILLION = 1_000_000  # shares are stored as whole millionths: exact in JSON and unchanged by a cast to bfloat16


@dataclass(frozen=True, kw_only=True)
class SpaDESettings(Architecture):
    """Defaults are the paper's; differences of its published code are named beside each switch."""

    components: Literal["both", "weighting", "expansion"] = "both"
    """Both (Eq. 10), or one alone, as in the ablation of Table 6."""
    k: int | None = 10
    """Terms that each position gives weight to (Eq. 8); the paper reports 2, 5 and 10. ``null``: all of them, as in the
    warm-up stages of paper (section 3.4, Fig. 4) and code: a stage of a recipe sets it with ``settings: {k: null}``."""
    alpha: float = 0.5
    """``(1 - alpha) * weighting + alpha * expansion`` (Eq. 10). The paper finds 0.3 to 0.5 best on validation queries
    and trains jointly with 0.3."""
    repeats: Literal["max", "first", "mean"] = "max"
    """Weight of a term that occurs several times, from its scores (Eq. 6); the code takes the first."""
    weighting_activation: Activation = "relu"
    """After the MLP. The code has ReLU; in the paper, the maximum with the zeros of the one-hot vectors has the same
    effect."""
    expansion_activation: Activation = "relu"
    """Eq. 7. The code has none until its co-training begins. It matters with ``k: null`` only, because the maximum with
    the zeros that Eq. 8 leaves is never below zero."""
    pool_special_tokens: bool = True
    """Whether [CLS] and [SEP] expand a text too (Eq. 9: yes)."""
    bow_special_tokens: SpecialTokens = "none"
    """Special tokens in queries and among weighted terms: none, because Eq. 4 runs over the text's own 1..|d|."""
    weighting_separators: bool = False
    """Whether the [SEP] between a text and its expansion is weighted like a term, as in the code."""
    block_special_terms: bool = False
    """Whether the dimensions of special and ``[unused]`` tokens are always 0: no in paper and code. Queries never
    contain them, so blocking saves postings and changes no score."""
    query_weighting: Literal["binary", "idf", "learned"] = "binary"
    """Eq. 4: 1 for each term. ``learned`` is ours: a weight for each term, trained with the documents."""
    expanded: Literal["both", "weighting", "expansion", "none"] = "both"
    """Components that read ``Document.expanded`` (docT5query's queries); the paper says "each encoder", as the code
    does."""
    gamma: float = 1.0
    """Terms that have weight in a larger share of documents are pruned (section 3.4); 1: none. Training sets it."""
    frequencies: Mapping[str, float] = field(default_factory=dict)
    """Found in training: for each frequent term, the share of documents in which it has weight."""
    dropout: float = 0.1
    """Before the MLP of the weighting."""

    changeable = frozenset({"components", "k", "alpha", "gamma"})
    stage_settings = frozenset({"k", "alpha", "expansion_activation"})

    def __post_init__(self) -> None:
        """Refuse values that no model can have."""
        if not 0 <= self.alpha <= 1:
            raise LearnedSparseError(f"SpaDE: alpha is {self.alpha}; give a number from 0 (weighting) to 1 (expansion)")
        if self.k is not None and self.k < 1:
            raise LearnedSparseError(f"SpaDE: k is {self.k}; give at least 1 term a position, or null for all")

    @property
    def names(self) -> tuple[str, ...]:
        """``weighting`` and ``expansion``, or one of them."""
        return COMPONENTS if self.components == "both" else (self.components,)

    def networks(self, side: Side) -> Mapping[str, TowerKind]:  # noqa: ARG002
        """A tower for each component: a masked-LM expands, an MLP on hidden states weighs."""
        mlp = HiddenStatesKind(lambda hidden_size: two_layer_head(hidden_size, self.dropout))
        return {name: mlp if name == "weighting" else LanguageModel for name in self.names}

    def network_side(self, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:  # noqa: ARG002
        """``SpaDE``."""
        return SpaDE(self, towers, vocabulary)

    @property
    def query_bag(self) -> tuple[Weighting, SpecialTokens]:
        """Eq. 4."""
        return self.query_weighting, self.bow_special_tokens

    @property
    def uses_expanded(self) -> bool:  # type: ignore[override]
        """Whether a component reads the expansion."""
        return self.expanded in {"both", *self.names}

    def objective(self, ranking: Objective, stage: Stage, weighers: TermWeighers) -> Objective:
        """The ranking loss, with Eq. 12 if the stage has a pointwise loss for what it trains."""
        if (pointwise := stage.options.pointwise) == 0 or stage.component == "weighting":
            return ranking
        return PointwiseObjective(ranking, pointwise, cast("SpaDE | Pruned", weighers.document))

    def mixtures(self) -> Sequence[Mixture]:
        """The grid of the paper's section 4."""
        if self.components != "both":
            return ()
        return [({"alpha": tenths / 10}, _factors(tenths / 10)) for tenths in range(11)]


class TermPruning(nn.Module):
    """Share of documents in which each term has weight, and the largest share that is kept (``gamma``; 1: all)."""

    def __init__(self, vocabulary: Vocabulary, allowed: Tensor, frequencies: Mapping[str, float], gamma: float) -> None:
        """``allowed`` ``(vocabulary,)`` of bool: terms that may have weight, however frequent they are."""
        super().__init__()
        self._allowed: Tensor
        self.register_buffer("_allowed", allowed, persistent=False)
        self._spellings = vocabulary.terms
        self._shares: Tensor
        self._gamma: Tensor
        self.register_buffer("_shares", torch.zeros(len(vocabulary.terms), dtype=torch.long))
        self.register_buffer("_gamma", torch.tensor(_millionths(gamma)))
        columns = {term: column for column, term in enumerate(vocabulary.terms)} if frequencies else {}
        for term, share in frequencies.items():
            if term not in columns:
                raise LearnedSparseError(
                    f"frequencies: no term {term!r} in the vocabulary{did_you_mean(term, columns)}"
                )
            self._shares[columns[term]] = _millionths(share)

    @property
    def kept(self) -> Tensor:
        """Which terms may have weight, ``(vocabulary,)`` of bool: the allowed ones with a share of at most gamma."""
        return self._allowed & (self._shares <= self._gamma)

    def update(self, shares: Tensor, gamma: float, *, cumulative: bool = False) -> int:
        """Set the shares of all terms, ``(vocabulary,)`` from 0 to 1, and gamma; returns the number of pruned terms.

        ``cumulative``: terms that are pruned keep their share where the new one is smaller, and so stay pruned.
        """
        before = self._shares * (self._shares > self._gamma)
        self._shares.copy_((shares.cpu().double() * _MILLION).round().long())
        if cumulative:
            self._shares.copy_(torch.maximum(self._shares, before))
        self._gamma.fill_(_millionths(gamma))
        return int((self._shares > self._gamma).sum())

    def learned(self) -> dict[str, Any]:
        """``gamma``, and ``frequencies`` of the terms with a share of at least 0.05, the most frequent first."""
        shares = self._shares.tolist()
        frequent = (self._shares >= _millionths(MIN_FREQUENCY)).nonzero().flatten().tolist()
        columns = sorted((c for c in frequent if self._spellings[c]), key=lambda column: (-shares[column], column))
        return {
            "gamma": self._gamma.item() / _MILLION,
            "frequencies": {self._spellings[column]: shares[column] / _MILLION for column in columns},
        }


def _millionths(share: float) -> int:
    if not MIN_FREQUENCY <= share <= 1:
        raise LearnedSparseError(f"gamma or frequency {share}: give a share of documents, {MIN_FREQUENCY} to 1")
    return round(share * _MILLION)


class Expansion(PooledTower):
    """The largest k masked-LM logits of each position, and their maximum over positions (Eq. 7 to 9)."""

    def __init__(self, settings: SpaDESettings, tower: LanguageModel, vocabulary: Vocabulary) -> None:
        super().__init__(tower, vocabulary, pool_special_tokens=settings.pool_special_tokens)
        self._k = None if settings.k is None else min(settings.k, len(vocabulary.terms))
        self._relu = settings.expansion_activation == "relu"
        self._separator = separator_of(vocabulary) if settings.expanded == "weighting" else None

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``; with ``k``, logits are held for one block of positions at a time."""
        hidden, pooled, weight, bias = self._read(input_ids, attention_mask)
        if self._k is None:
            relu = self._relu or not self.training
            return pool(hidden, pooled, weight, bias, pooling="max", relu=relu, screen=self.tower.screen)
        # ReLU before or after the choice of k gives the same: max_pool_entries never returns less than zero
        values, columns = top_k_per_row(hidden[pooled], weight, bias, self._k)
        text = pooled.nonzero()[:, 0]
        return max_pool_entries(values, columns, text, len(input_ids), len(weight))

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """The token that gives each of the weights ``columns`` of one text."""
        hidden, pooled, weight, bias = self._read(input_ids, attention_mask)
        if self._k is None:
            return [pooled_shares(hidden, pooled, weight, bias, columns, pooling="max")]
        values, winners = top_k_per_row(hidden[pooled], weight, bias, self._k)
        return [largest_shares(values, winners, pooled.nonzero()[:, 1], columns)]

    def _read(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """``states`` of the part of the input that the expansion reads."""
        if self._separator is not None:
            input_ids, attention_mask = own_text(input_ids, attention_mask, self._separator)
        return self.states(input_ids, attention_mask)


class Pruned(nn.Module):
    """One component without the pruned terms."""

    def __init__(self, unpruned: nn.Module, pruning: TermPruning) -> None:
        super().__init__()
        self.unpruned = unpruned
        """The component before pruning: the weights that document frequencies are counted on."""
        self.pruning = pruning

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``."""
        weights: Tensor = self.unpruned(input_ids, attention_mask)
        return weights * self.pruning.kept

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """The share of each token in the weights ``columns`` of one text."""
        unpruned: Any = self.unpruned
        shares: list[Shares] = unpruned.shares(input_ids, attention_mask, columns[self.pruning.kept[columns]])
        return shares


class SpaDE(nn.Module):
    """The document side: its components, weighed against each other (Eq. 10)."""

    def __init__(self, settings: SpaDESettings, towers: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        super().__init__()
        block = settings.block_special_terms
        allowed = torch.tensor(vocabulary.counted("none" if block else "all", unused=not block))
        self.pruning = TermPruning(vocabulary, allowed, settings.frequencies, settings.gamma)
        unpruned: dict[str, nn.Module] = {}
        if settings.components != "expansion":
            unpruned["weighting"] = TokenWeights(
                towers["weighting"],
                vocabulary,
                repeats=settings.repeats,
                activation=settings.weighting_activation,
                special_tokens=settings.bow_special_tokens,
                separators=settings.weighting_separators,
                expanded=settings.expanded != "expansion",
            )
        if settings.components != "weighting":
            unpruned["expansion"] = Expansion(settings, towers["expansion"], vocabulary)
        self.components = nn.ModuleDict({name: Pruned(part, self.pruning) for name, part in unpruned.items()})
        """``weighting`` and ``expansion``, each without its factor of Eq. 10."""
        self._factors = _factors(settings.alpha) if len(unpruned) > 1 else dict.fromkeys(unpruned, 1.0)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``; a component whose factor is 0 is not computed."""
        used = ((self.components[name], factor) for name, factor in self._factors.items() if factor > 0)
        parts = (factor * component(input_ids, attention_mask) for component, factor in used)
        weights: Tensor = functools.reduce(torch.add, parts)
        return weights

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """The share of each token in the weights ``columns`` of one text, by component."""
        return [
            share._replace(part=name, value=share.value * factor)
            for name, factor in self._factors.items()
            if factor > 0
            for share in cast(Any, self.components[name]).shares(input_ids, attention_mask, columns)
        ]

    def learned(self) -> Mapping[str, Any]:
        """``gamma`` and ``frequencies``."""
        return self.pruning.learned()


class PointwiseObjective(Objective):
    """Eq. 12: the ranking loss plus ``-weight * v_q . log softmax(v_d+)``, without the pruned terms of the query."""

    def __init__(self, ranking: Objective, weight: float, document: SpaDE | Pruned) -> None:
        self.towers, self.ranks = ranking.towers, ranking.ranks
        self._ranking, self._weight, self._document = ranking, weight, document

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        """Outputs of the ranking loss."""
        return self._ranking.outputs(queries, documents)

    def losses(self, outputs: Mapping[str, Tensor], labels: Labels) -> dict[str, Tensor]:
        """The ranking loss and the pointwise loss."""
        likelihood = query_nll(outputs["queries"] * self._document.pruning.kept, outputs["positives"])
        return {**self._ranking.losses(outputs, labels), "pointwise_loss": self._weight * likelihood}


def query_nll(queries: Tensor, positives: Tensor) -> Tensor:
    """The last part of Eq. 12 of each query, ``(queries,)``: ``-v_q . log softmax(v_d+)``.

    Both arguments have shape ``(queries, dimensions)``.

    >>> round(query_nll(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 0.0]])).item(), 4)
    0.6931
    """
    return -(queries * functional.log_softmax(positives, dim=1)).sum(dim=1)


def _factors(alpha: float) -> dict[str, float]:
    return {"weighting": 1 - alpha, "expansion": alpha}
