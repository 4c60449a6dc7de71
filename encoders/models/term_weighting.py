"""Term weighting without expansion by the model: uniCOIL, DeepImpact and TILDEv2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from encoders.backbone import TowerKind, hidden_states_kind
from encoders.checkpoints import Vocabulary
from encoders.models.architecture import Architecture
from encoders.models.token_weights import (
    Activation,
    BagOfWords,
    Repeats,
    SpecialTokens,
    TokenWeights,
    linear_head,
    two_layer_head,
)
from learned_sparse.core import Side


@dataclass(frozen=True, kw_only=True)
class UniCoilSettings:
    """Lin and Ma (2021), after COIL's published code: one linear layer and ReLU over the last hidden states."""

    head: Literal["linear", "two-layer"] = "linear"
    """Network that scores the last hidden state of a token."""
    repeats: Repeats = "max"
    """Weight of a term that occurs several times in a document, from its scores."""
    activation: Activation = "relu"
    """After the head."""
    query: Literal["same", "separate", "bag-of-words"] = "same"
    """``same``: one tower for both sides; ``bag-of-words``: queries learn nothing."""
    query_repeats: Repeats = "sum"
    """As ``repeats``, for neural queries. COIL's score is a sum over the tokens of the query, with repetitions."""
    query_weighting: Literal["binary", "tf"] = "binary"
    """Weighting of bag-of-words queries."""
    bow_special_tokens: SpecialTokens = "unknown"
    """Special tokens that are terms: [UNK], which stands for text."""
    separators: bool = False
    """Whether the [SEP] between a text and its expansion is a term; Pyserini's encoder weighs every [SEP]."""
    expanded: bool = True
    """Whether documents are read with their expansion text if the collection has one."""
    dropout: float = 0.0
    """Before a two-layer head."""


@dataclass(frozen=True, kw_only=True)
class DeepImpactSettings(UniCoilSettings):
    """Mallia et al. (2021): a two-layer score of each term's first occurrence in the docT5query-expanded document.

    Terms are word pieces here, whole words in the paper.
    """

    head: Literal["linear", "two-layer"] = "two-layer"
    repeats: Repeats = "first"
    query: Literal["same", "separate", "bag-of-words"] = "bag-of-words"


@dataclass(frozen=True, kw_only=True)
class TildeV2Settings(UniCoilSettings):
    """Zhuang and Zuccon (2021): a linear score, the largest of each term; queries are term frequencies.

    The paper expands documents with terms from TILDE; here the collection brings the expansion text.
    """

    query: Literal["same", "separate", "bag-of-words"] = "bag-of-words"
    query_weighting: Literal["binary", "tf"] = "tf"


def _towers(settings: UniCoilSettings, side: Side) -> tuple[str, ...]:
    if side == "document" or settings.query == "same":
        return ("document",)
    return ("query",) if settings.query == "separate" else ()


def _tower(settings: UniCoilSettings, _name: str) -> TowerKind:
    def head(hidden_size: int) -> nn.Module:
        return linear_head(hidden_size) if settings.head == "linear" else two_layer_head(hidden_size, settings.dropout)

    return hidden_states_kind(head, None)


def _weigher(settings: UniCoilSettings, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
    names = _towers(settings, side)
    if not names:
        return BagOfWords(vocabulary, settings.query_weighting, settings.bow_special_tokens)
    return TokenWeights(
        towers[names[0]],
        vocabulary,
        repeats=settings.repeats if side == "document" else settings.query_repeats,
        activation=settings.activation,
        special_tokens=settings.bow_special_tokens,
        separators=settings.separators,
    )


def _family(settings: type[UniCoilSettings]) -> Architecture:
    return Architecture(
        settings=settings,
        towers=_towers,
        weigher=_weigher,
        scale=lambda settings, side: 1.0 if side == "query" and settings.query == "bag-of-words" else None,
        shared=lambda settings: settings.query == "same" and settings.query_repeats == settings.repeats,
        tower=_tower,
        uses_expanded=lambda settings: settings.expanded,
    )


UNICOIL = _family(UniCoilSettings)
DEEPIMPACT = _family(DeepImpactSettings)
TILDEV2 = _family(TildeV2Settings)
