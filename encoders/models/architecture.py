"""What an architecture is, and the modules that most have: towers with pooled positions.

An architecture is settings, the towers and modules that they choose for both sides, and what training asks of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor, nn

from encoders.checkpoints.notes import TABLE_WEIGHTINGS, CheckpointNotes, Weighting, changed_keys
from encoders.checkpoints.tokenizer import SpecialTokens, Vocabulary
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.settings import parse

if TYPE_CHECKING:
    from encoders.backbone.hidden_states import TowerKind
    from encoders.models.objectives import Mixture, Objective, TermWeighers
    from encoders.training.recipe import Stage

QUERY_WEIGHTS = "query_weights"
"""Name of the tower that is the table of queries."""


class Architecture(ABC):
    """A model family: a subclass is a frozen dataclass, whose fields are its settings.

    Every choice that its paper leaves open has a name and a default there. A new architecture writes ``networks`` and
    ``network_side``; all other members have defaults. A side reads *towers*: networks, or the table of weights of a bag
    of words.
    """

    changeable: frozenset[str] = frozenset()
    """Settings that may differ from the checkpoint's when texts are encoded."""
    query_only_settings: frozenset[str] = frozenset()
    """Those of the changeable settings that affect queries only: an index stays valid when they change."""
    stage_settings: frozenset[str] = frozenset()
    """Settings that a stage of training may change: those that change neither towers nor names of modules."""
    objectives: tuple[str, ...] = ("rank",)
    """What ``objective`` of a stage can name, besides ``mlm``."""
    scoring: Literal["impact", "bm25"] = "impact"
    """``bm25``: document weights are term frequencies."""
    uses_expanded: bool = False
    """Whether documents are read with their expansion text (``Document.expanded``) if they have one."""
    terms: Sequence[str] | None = None
    """The spelling of each dimension in the index; None: those of the vocabulary."""

    @abstractmethod
    def networks(self, side: Side) -> Mapping[str, TowerKind]:
        """The towers of a side that has a network, by name."""

    @abstractmethod
    def network_side(self, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
        """The module of a side that has a network; ``towers`` may hold this side's towers only."""

    @property
    def query_bag(self) -> tuple[Weighting, SpecialTokens] | None:
        """Weighting and special tokens of queries without a network; ``None``: queries have a network."""
        return None

    @property
    def network_scale(self) -> float | None:
        """Factor from weights of a network to impacts; ``None``: calibrate on the weights of the trained model."""
        return None

    @property
    def shared(self) -> bool:
        """Whether both sides are one module."""
        return False

    @property
    def trained_by_ranking(self) -> tuple[str, ...]:
        """The towers whose outputs become term weights: a ranking loss trains them, ``idf_bias`` raises their output
        biases. A table of inverse document frequencies is not trained.
        """
        fixed = {QUERY_WEIGHTS} if self.query_bag and self.query_bag[0] == "idf" else set()
        return tuple(name for name in self.towers("document", "query") if name not in fixed)

    def objective(self, ranking: Objective, stage: Stage, weighers: TermWeighers) -> Objective:  # noqa: ARG002
        """What ``stage`` minimises: ``ranking``, the ranking loss that the stage names, or an objective of the
        architecture that replaces or extends it.
        """
        return ranking

    def mixtures(self) -> Sequence[Mixture]:
        """The mixtures of components that validation chooses from; empty: nothing is mixed."""
        return ()

    # What follows is derived.

    def towers(self, *sides: Side) -> dict[str, TowerKind]:
        """The towers that ``sides`` read, by name; a bag of words reads none, or its table."""
        kinds: dict[str, TowerKind] = {}
        for side in sides:
            bag = self.query_bag if side == "query" else None
            if bag is None:
                kinds |= self.networks(side)
            elif bag[0] in TABLE_WEIGHTINGS:
                from encoders.models.bags import TermTable

                kinds[QUERY_WEIGHTS] = TermTable
        return kinds

    def weigher(self, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
        """The module of a side."""
        bag = self.query_bag if side == "query" else None
        if bag is None:
            return self.network_side(side, towers, vocabulary)
        from encoders.models.bags import BagOfWords

        return BagOfWords(vocabulary, *bag, towers.get(QUERY_WEIGHTS))

    def quantizer(self, side: Side) -> Quantizer | None:
        """The quantiser of a side, None if it has to be calibrated: counts are whole numbers, a table is about 1."""
        bag = self.query_bag if side == "query" else None
        if bag is not None:
            return Quantizer(100.0 if bag[0] in TABLE_WEIGHTINGS else 1.0)
        return None if self.network_scale is None else Quantizer(self.network_scale)

    @classmethod
    def changed(
        cls, notes: CheckpointNotes, changes: Mapping[str, Any], name: str
    ) -> tuple[Self, Mapping[str, Quantizer | None]]:
        """The settings of a checkpoint with ``changes``, and the quantisers of both sides.

        The ``changeable`` settings may be changed, and those that are unrecorded in the checkpoint. Its quantisers are
        valid if documents do not depend on what differs. ``name`` opens error messages.
        """
        before = parse(cls, notes.settings, f"{name}: settings")
        after = parse(cls, {**notes.settings, **changes}, f"{name}: settings")
        changed = changed_keys(name, vars(before), vars(after), cls.changeable.union(notes.unrecorded))
        if changed <= cls.query_only_settings:
            return after, notes.quantizers
        return after, {"query": after.quantizer("query"), "document": after.quantizer("document")}


@dataclass(frozen=True, kw_only=True)
class OneTowerArchitecture(Architecture):
    """One tower for documents; queries share it, have their own, or are bags of words."""

    query: Literal["same", "separate", "bag-of-words"] = "same"
    """``same``: one tower for both sides; ``bag-of-words``: queries learn nothing (SPLADE-doc)."""
    query_weighting: Weighting = "binary"
    """Weighting of bag-of-words queries: a repeated term counts once, unless it is ``tf``. ``learned`` is a weight for
    each term, trained with the documents."""
    bow_special_tokens: SpecialTokens = "unknown"
    """Special tokens that are terms: [UNK], which stands for text. The published code of SPLADE excludes [CLS], [SEP]
    and [MASK] and keeps [UNK]. It fails to exclude [PAD], because it takes the id 0 for "no id"."""

    @property
    @abstractmethod
    def kind(self) -> TowerKind:
        """The kind of the towers."""

    def networks(self, side: Side) -> Mapping[str, TowerKind]:
        """``query`` is a tower of its own if the sides are separate."""
        return {"query" if side == "query" and self.query == "separate" else "document": self.kind}

    @property
    def query_bag(self) -> tuple[Weighting, SpecialTokens] | None:
        """The bag of words of the settings, if queries are one; raises for a table beside a network."""
        if self.query == "bag-of-words":
            return self.query_weighting, self.bow_special_tokens
        if self.query_weighting in TABLE_WEIGHTINGS:
            raise LearnedSparseError(
                f"query_weighting: {self.query_weighting} needs query: bag-of-words, not {self.query}"
            )
        return None

    @property
    def shared(self) -> bool:
        """Whether queries have the tower of documents."""
        return self.query == "same"


class PooledTower(nn.Module):
    """A tower, and the positions of a text that are pooled."""

    tower: Any

    def __init__(self, tower: nn.Module, vocabulary: Vocabulary, *, pool_special_tokens: bool) -> None:
        """``pool_special_tokens``: whether [CLS] and [SEP] are pooled too; [UNK] always is."""
        super().__init__()
        self.tower = tower
        self.pooled_tokens: Tensor
        counted = vocabulary.counted("all" if pool_special_tokens else "unknown")
        self.register_buffer("pooled_tokens", torch.tensor(counted), persistent=False)

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of a language model: hidden states, pooled positions, decoder weight and bias, as ``pool`` takes them."""
        pooled = attention_mask.bool() & self.pooled_tokens[input_ids]
        weight, bias = self.tower.decoder.weight, self.tower.decoder.bias
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        return self.tower(input_ids, attention_mask), pooled, weight, bias
