"""SparTerm (Bai et al., 2020): an importance predictor and a binary gate, two separate masked-LM towers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from encoders.backbone import Tower
from encoders.checkpoints import Vocabulary
from encoders.head import Shares, lexical_pool, merged_shares, pool, pool_columns, pooled_shares
from encoders.models.architecture import Architecture
from encoders.models.bag_of_words import BagOfWords, SpecialTokens, counts, unblocked
from learned_sparse.core import LearnedSparseError, Side


@dataclass(frozen=True, kw_only=True)
class SparTermSettings:
    """Defaults are the paper's best: expansion-enhanced documents (Table 2), symmetric neural queries (Table 4)."""

    mode: Literal["literal-only", "expansion-only", "expansion-enhanced"] = "expansion-enhanced"
    """``literal-only``: G = BoW(p). ``expansion-enhanced``: G_le (Eq. 6). ``expansion-only``: no term weighting,
    expanded words are added to the text with weight 1; the paper names no scoring function, BM25 fits its numbers."""
    query: Literal["tf", "symmetric", "asymmetric"] = "symmetric"
    """Table 4: term frequencies; the documents' weights for both sides; a second set of weights for queries."""
    query_gate: Literal["same", "literal"] = "same"
    """How neural queries are gated, on which the paper is silent: as documents are, or by their own words only."""
    gate_pool: Literal["relu_sum", "max", "raw_max"] = "relu_sum"
    """What the gate's probability G = sigmoid(.) is taken of: sum_i ReLU(.) (Eq. 3, so that G >= 0.5), max_i ReLU(.),
    or max_i without ReLU, where terms below zero still get a gradient from Eq. 8."""
    threshold: float = 0.7
    """Binarizer (Eq. 4): G' = 1 where G >= threshold."""
    max_terms: int | None = None
    """Lambda of section 3.1: only so many of the largest weights are kept. The paper gives no value."""
    pool_special_tokens: bool = True
    """Whether the positions of [CLS] and [SEP] are pooled too: the sums of Eq. 3 run over i = 0..L."""
    bow_special_tokens: SpecialTokens = "none"
    """Special tokens in BoW(p); the paper is silent."""
    block_special_terms: bool = True
    """Whether the dimensions of special and ``[unused]`` tokens are always 0 (in training and in the index)."""


class Pooled(nn.Module):
    """A tower and which positions of a text its logits are pooled over."""

    def __init__(self, tower: Tower, vocabulary: Vocabulary, *, pool_special_tokens: bool) -> None:
        super().__init__()
        self.tower = tower
        self._pooled_tokens: Tensor
        self.register_buffer(
            "_pooled_tokens", counts(vocabulary, "all" if pool_special_tokens else "unknown"), persistent=False
        )

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Hidden states, pooled positions, decoder weight and bias: what the functions of ``vocabulary_head`` take."""
        mask = attention_mask.bool() & self._pooled_tokens[input_ids]
        return self.tower(input_ids, attention_mask), mask, self.tower.decoder_weight, self.tower.decoder_bias


class Gate(Pooled):
    """The gating controller of section 3.3, up to the Binarizer."""

    def __init__(self, settings: SparTermSettings, tower: Tower, vocabulary: Vocabulary) -> None:
        super().__init__(tower, vocabulary, pool_special_tokens=settings.pool_special_tokens)
        self._pool = settings.gate_pool

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits ``(batch, vocabulary)`` of the gating probabilities G."""
        states = self.states(input_ids, attention_mask)
        if self._pool == "relu_sum":
            return pool(*states, pooling="sum")
        return pool(*states, pooling="max", relu=self._pool == "max")

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """What each token adds to the logits ``columns`` of one text (see ``encoders.head.attribution``)."""
        pooling: Literal["sum", "max"] = "sum" if self._pool == "relu_sum" else "max"
        states = self.states(input_ids, attention_mask)
        return [pooled_shares(*states, columns, pooling=pooling, relu=self._pool != "raw_max")._replace(gate=True)]


class Importance(Pooled):
    """The importance predictor of section 3.2: I = sum_i ReLU(I_i)."""

    def literal(self, input_ids: Tensor, attention_mask: Tensor, literal: Tensor) -> Tensor:
        """I ⊙ BoW(p), computed for the text's own terms only."""
        hidden, mask, *decoder = self.states(input_ids, attention_mask)
        return lexical_pool(hidden, input_ids, mask, literal, *decoder, pooling="sum", saturation="none")

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """What each token adds to the weights ``columns`` of one text (see ``encoders.head.attribution``)."""
        return [pooled_shares(*self.states(input_ids, attention_mask), columns, pooling="sum")]

    def gated(self, input_ids: Tensor, attention_mask: Tensor, gate: Tensor) -> Tensor:
        """I ⊙ gate, computed for the terms that the gate opens for any text of the batch."""
        columns = gate.any(0).nonzero().squeeze(1)
        return pool_columns(*self.states(input_ids, attention_mask), columns, pooling="sum", saturation="none") * gate


class SparTerm(nn.Module):
    """One side: p' = F(p) ⊙ G(p) (Eq. 1).

    The Binarizer has no gradient: a ranking loss never reaches the gate. What trains it is Eq. 8 on ``gate_logits``.
    """

    def __init__(
        self, settings: SparTermSettings, importance: Tower | None, gate: Tower | None, vocabulary: Vocabulary
    ) -> None:
        """``importance`` is absent for expansion-only, ``gate`` for literal gating."""
        super().__init__()
        special = settings.pool_special_tokens
        self.importance = (
            None if importance is None else Importance(importance, vocabulary, pool_special_tokens=special)
        )
        self.gate = None if gate is None else Gate(settings, gate, vocabulary)
        weighting: Literal["binary", "tf"] = "tf" if importance is None else "binary"
        self.bag_of_words = BagOfWords(vocabulary, weighting, settings.bow_special_tokens)
        self._threshold, self._max_terms = _logit(settings.threshold), settings.max_terms
        self._unblocked: Tensor
        self.register_buffer(
            "_unblocked", unblocked(vocabulary, block_special_terms=settings.block_special_terms), persistent=False
        )

    def train(self, mode: bool = True) -> SparTerm:
        """A frozen gate stays without dropout: its decisions are then the same in training and in the index."""
        super().train(mode)
        if self.gate is not None and not any(parameter.requires_grad for parameter in self.gate.parameters()):
            self.gate.eval()
        return self

    def forward(self, input_ids: Tensor, attention_mask: Tensor, gate_logits: Tensor | None = None) -> Tensor:
        """Weights ``(batch, vocabulary)``; ``gate_logits`` if they are already at hand (joint training)."""
        if self.gate is None:
            weights = self._literal_weights(input_ids, attention_mask)
        else:
            if gate_logits is None:
                with torch.no_grad():
                    gate_logits = self.gate(input_ids, attention_mask)
            weights = self._expanded_weights(input_ids, attention_mask, gate_logits.detach() >= self._threshold)
        return weights if self._max_terms is None else keep_largest(weights, self._max_terms)

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """What each token adds to the weights ``columns`` of one text, and to the gate of those not in it.

        For expansion-only a term that the gate alone brings has its weight of 1 from no token.
        """
        literal = self.bag_of_words.literal_positions(input_ids, attention_mask)
        if self.importance is None:
            found = [merged_shares(literal.float(), input_ids, literal, columns, "sum")]
        else:
            found = self.importance.shares(input_ids, attention_mask, columns)
        if self.gate is None:
            return found
        gated = columns[~torch.isin(columns, input_ids[literal])]
        return found + self.gate.shares(input_ids, attention_mask, gated)

    def gate_logits(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits ``(batch, vocabulary)`` of the probabilities G, with gradient, for Eq. 8.

        ``log G = logsigmoid(logits)`` and ``log(1 - G) = logsigmoid(-logits)`` are stable where G itself is not.
        """
        if self.gate is None:
            raise LearnedSparseError("SparTerm: literal gating has no gate to train; set mode: expansion-enhanced")
        logits: Tensor = self.gate(input_ids, attention_mask)
        return logits

    def _literal_weights(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        if self.importance is None:
            raise ValueError("neither importance predictor nor gate")
        literal = self.bag_of_words.literal_positions(input_ids, attention_mask)
        return self.importance.literal(input_ids, attention_mask, literal) * self._unblocked

    def _expanded_weights(self, input_ids: Tensor, attention_mask: Tensor, binarized: Tensor) -> Tensor:
        bags = self.bag_of_words(input_ids, attention_mask)
        expansion = binarized & (bags == 0) & self._unblocked  # G_e, Eq. 5
        if self.importance is None:
            frequencies: Tensor = (bags + expansion) * self._unblocked
            return frequencies
        gate = (expansion | (bags > 0)) & self._unblocked  # G_le, Eq. 6
        return self.importance.gated(input_ids, attention_mask, gate)


def keep_largest(weights: Tensor, count: int) -> Tensor:
    """``weights`` ``(batch, vocabulary)`` with all but the ``count`` largest of each row set to 0."""
    largest = weights.topk(min(count, weights.shape[1]), dim=1).indices
    return weights * torch.zeros_like(weights).scatter_(1, largest, 1.0)


def _logit(probability: float) -> float:
    """The x with sigmoid(x) = probability; infinite at 0 (every gate open) and 1 (none).

    >>> round(_logit(0.7), 3)
    0.847
    """
    if not 0 <= probability <= 1:
        raise LearnedSparseError(f"SparTerm: threshold {probability} is not a probability; give a number from 0 to 1")
    if probability in (0, 1):
        return math.copysign(math.inf, probability - 0.5)
    return math.log(probability / (1 - probability))


def _towers(settings: SparTermSettings, side: Side) -> tuple[str, ...]:
    if settings.mode == "expansion-only" and settings.query != "tf":
        raise LearnedSparseError("SparTerm: expansion-only documents are bags of words scored by BM25; set query: tf")
    if side == "query" and settings.query == "tf":
        return ()
    gate: tuple[str, ...] = () if settings.mode == "literal-only" else ("gate",)
    if side == "query" and settings.query_gate == "literal":
        gate = ()
    names = gate if settings.mode == "expansion-only" else ("importance", *gate)
    return tuple(f"query_{name}" for name in names) if side == "query" and settings.query == "asymmetric" else names


def _weigher(settings: SparTermSettings, side: Side, towers: Mapping[str, Tower], vocabulary: Vocabulary) -> nn.Module:
    names = _towers(settings, side)
    if not names:
        return BagOfWords(vocabulary, "tf", settings.bow_special_tokens)
    found = {name.removeprefix("query_"): towers[name] for name in names}
    return SparTerm(settings, found.get("importance"), found.get("gate"), vocabulary)


def _scale(settings: SparTermSettings, side: Side) -> float | None:
    """Term frequencies are integers already; sums without log reach hundreds and are calibrated."""
    return 1.0 if settings.mode == "expansion-only" or (side == "query" and settings.query == "tf") else None


SPARTERM = Architecture(
    settings=SparTermSettings,
    towers=_towers,
    weigher=_weigher,
    scale=_scale,
    scoring=lambda settings: "bm25" if settings.mode == "expansion-only" else "impact",
    shared=lambda settings: (
        settings.query == "symmetric" and (settings.query_gate == "same" or settings.mode == "literal-only")
    ),
    changeable=frozenset({"threshold", "max_terms"}),
)
