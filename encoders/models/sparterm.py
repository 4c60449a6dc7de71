"""SparTerm (Bai et al., 2020): an importance predictor and a binary gate, two separate masked-LM towers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from encoders.backbone.towers import LanguageModel
from encoders.checkpoints.notes import Weighting
from encoders.checkpoints.tokenizer import SpecialTokens, Vocabulary
from encoders.head.shares import Shares, merged_shares, pooled_shares
from encoders.head.token_top_k import keep_largest
from encoders.head.vocabulary_head import Pooling, lexical_pool, pool, pool_columns
from encoders.models.architecture import Architecture, PooledTower
from encoders.models.bags import BagOfWords
from encoders.models.objectives import Labels, Objective, TermWeighers, Tokens
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError

if TYPE_CHECKING:
    from encoders.training.recipe import Stage


@dataclass(frozen=True, kw_only=True)
class SparTermSettings(Architecture):
    """Defaults are the paper's best: expansion-enhanced documents (Table 2), symmetric neural queries (Table 4)."""

    mode: Literal["literal-only", "expansion-only", "expansion-enhanced"] = "expansion-enhanced"
    """``literal-only``: G = BoW(p). ``expansion-enhanced``: G_le (Eq. 6). ``expansion-only``: no term weighting,
    expansion terms are added to the text with weight 1; the paper names no scoring function, BM25 fits its numbers."""
    query: Literal["tf", "idf", "learned", "symmetric", "asymmetric"] = "symmetric"
    """Table 4: term frequencies; the same towers for both sides; an importance predictor of its own for queries.
    ``idf`` and ``learned`` are ours: a weight for each term, from the training data or trained with the documents."""
    query_gate: Literal["same", "literal"] = "same"
    """Gate of neural queries, on which the paper is silent. ``same``: that of documents, of which a copy would give the
    same, because gates are frozen while a ranking loss trains the rest (section 4.2). ``literal``: the terms of the
    query only."""
    gate_pool: Literal["relu_sum", "max", "raw_max"] = "relu_sum"
    """Argument of the gating probability G = sigmoid(.): sum_i ReLU(.) (Eq. 3, so that G >= 0.5), max_i ReLU(.),
    or max_i without ReLU, where terms below zero still get a gradient from Eq. 8."""
    threshold: float = 0.7
    """Binarizer (Eq. 4): G' = 1 where G >= threshold."""
    max_terms: int | None = None
    """Lambda of section 3.1: the number of largest weights that are kept. The paper gives no value."""
    pool_special_tokens: bool = True
    """Whether the positions of [CLS] and [SEP] are pooled too: the sums of Eq. 3 run over i = 0..L."""
    bow_special_tokens: SpecialTokens = "none"
    """Special tokens in BoW(p); the paper is silent."""
    block_special_terms: bool = True
    """Whether the dimensions of special and ``[unused]`` tokens are always 0 (in training and in the index)."""

    changeable = frozenset({"threshold", "max_terms"})
    objectives = ("rank", "gate")

    def __post_init__(self) -> None:
        """Refuse combinations that have no meaning."""
        if not 0 <= self.threshold <= 1:
            raise LearnedSparseError(f"SparTerm: threshold {self.threshold} is no probability; give one from 0 to 1")
        if self.mode == "expansion-only" and self.query != "tf":
            raise LearnedSparseError(
                "SparTerm: expansion-only documents are bags of words scored by BM25; set query: tf"
            )

    def networks(self, side: Side) -> Mapping[str, type[LanguageModel]]:
        """``importance`` and ``gate`` as the mode needs them, and ``query_importance`` where queries have their own."""
        own_importance = side == "query" and self.query == "asymmetric"
        importance = "query_importance" if own_importance else "importance"
        literal = self.mode == "literal-only" or (side == "query" and self.query_gate == "literal")
        names = (() if self.mode == "expansion-only" else (importance,)) + (() if literal else ("gate",))
        return dict.fromkeys(names, LanguageModel)

    def network_side(self, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
        """``SparTerm``."""
        return SparTerm(self, {name.removeprefix("query_"): towers[name] for name in self.networks(side)}, vocabulary)

    @property
    def query_bag(self) -> tuple[Weighting, SpecialTokens] | None:
        """``tf`` is Table 4's."""
        return (self.query, self.bow_special_tokens) if self.query in ("tf", "idf", "learned") else None

    @property
    def network_scale(self) -> float | None:
        """Term frequencies are integers; sums without log reach hundreds and are calibrated."""
        return 1.0 if self.mode == "expansion-only" else None

    @property
    def scoring(self) -> Literal["impact", "bm25"]:  # type: ignore[override]
        """BM25 for expansion-only documents."""
        return "bm25" if self.mode == "expansion-only" else "impact"

    @property
    def shared(self) -> bool:
        """Whether queries have the same importance predictor and the same gate."""
        return self.query == "symmetric" and (self.query_gate == "same" or self.mode == "literal-only")

    @property
    def trained_by_ranking(self) -> tuple[str, ...]:
        """All but the gates, which Eq. 8 trains."""
        return tuple(name for name in super().trained_by_ranking if name != "gate")

    def objective(self, ranking: Objective, stage: Stage, weighers: TermWeighers) -> Objective:
        """``objective: gate`` is Eq. 8, ``joint: true`` Eq. 9; otherwise the gate is frozen."""
        if stage.objective == "rank" and not stage.options.joint:
            return ranking
        document = weighers.document
        if not isinstance(document, SparTerm) or document.gate is None:
            raise LearnedSparseError(
                f"stage {stage.name}: the model has no gate to train; set mode: expansion-enhanced"
            )
        if stage.objective == "gate":
            return GateObjective(document)
        return JointObjective(ranking, weighers, document)


class Gate(PooledTower):
    """The gating controller of section 3.3, up to the Binarizer."""

    def __init__(self, settings: SparTermSettings, tower: LanguageModel, vocabulary: Vocabulary) -> None:
        super().__init__(tower, vocabulary, pool_special_tokens=settings.pool_special_tokens)
        self._pooling: Pooling = "sum" if settings.gate_pool == "relu_sum" else "max"
        self._relu = settings.gate_pool != "raw_max"

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits ``(batch, vocabulary)`` of the gating probabilities G.

        ``log G = logsigmoid(logits)`` and ``log(1 - G) = logsigmoid(-logits)`` are stable where G itself is not.
        """
        states = self.states(input_ids, attention_mask)
        return pool(*states, pooling=self._pooling, relu=self._relu, screen=self.tower.screen)

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """The share of each token in the logits ``columns`` of one text."""
        states = self.states(input_ids, attention_mask)
        return [pooled_shares(*states, columns, pooling=self._pooling, relu=self._relu)._replace(gate=True)]


class SparTerm(nn.Module):
    """One side: p' = F(p) ⊙ G(p) (Eq. 1).

    The Binarizer has no gradient, so a ranking loss never reaches the gate. Eq. 8 on its logits trains it.
    """

    def __init__(self, settings: SparTermSettings, towers: Mapping[str, LanguageModel], vocabulary: Vocabulary) -> None:
        """``towers``: without ``importance`` for expansion-only, without ``gate`` for literal gating."""
        super().__init__()
        self.importance: PooledTower | None = None
        """The importance predictor of section 3.2: I = sum_i ReLU(I_i)."""
        if importance := towers.get("importance"):
            special = settings.pool_special_tokens
            self.importance = PooledTower(importance, vocabulary, pool_special_tokens=special)
        self.gate = Gate(settings, towers["gate"], vocabulary) if "gate" in towers else None
        weighting: Literal["binary", "tf"] = "tf" if self.importance is None else "binary"
        self.bag_of_words = BagOfWords(vocabulary, weighting, settings.bow_special_tokens)
        self.target_terms = BagOfWords(vocabulary)
        """The binary bag of words of a text without special tokens: the target T of Eq. 8."""
        # infinite at 0 (every gate open) and 1 (every gate closed)
        self._threshold = float(torch.tensor(settings.threshold, dtype=torch.float64).logit())
        self._max_terms = None if settings.max_terms is None else min(settings.max_terms, len(vocabulary.terms))
        self._unblocked: Tensor
        block = settings.block_special_terms
        unblocked = torch.tensor(vocabulary.counted("none" if block else "all", unused=not block))
        self.register_buffer("_unblocked", unblocked, persistent=False)

    def train(self, mode: bool = True) -> SparTerm:
        """A frozen gate has no dropout, so that it opens for the same terms in training and in the index."""
        super().train(mode)
        if self.gate is not None and not any(parameter.requires_grad for parameter in self.gate.parameters()):
            self.gate.eval()
        return self

    def forward(self, input_ids: Tensor, attention_mask: Tensor, gate_logits: Tensor | None = None) -> Tensor:
        """Weights ``(batch, vocabulary)``; joint training passes the ``gate_logits`` that it has computed."""
        if self.gate is None:  # I ⊙ BoW(p), computed for the terms of the text only
            literal = self.bag_of_words.literal_positions(input_ids, attention_mask)
            hidden, mask, *decoder = cast(PooledTower, self.importance).states(input_ids, attention_mask)
            weights = lexical_pool(hidden, input_ids, mask, literal, *decoder, pooling="sum", saturation="none")
            weights = weights * self._unblocked
        else:
            if gate_logits is None:
                with torch.no_grad():
                    gate_logits = self.gate(input_ids, attention_mask)
            binarized, bags = gate_logits.detach() >= self._threshold, self.bag_of_words(input_ids, attention_mask)
            expansion = binarized & (bags == 0) & self._unblocked  # G_e, Eq. 5
            if self.importance is None:
                weights = (bags + expansion) * self._unblocked
            else:
                gate = (expansion | (bags > 0)) & self._unblocked  # G_le, Eq. 6
                columns = gate.any(0).nonzero().squeeze(1)  # the terms that the gate opens for any text of the batch
                weights = pool_columns(*self.importance.states(input_ids, attention_mask), columns) * gate
        return weights if self._max_terms is None else keep_largest(weights, self._max_terms)

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """The share of each token in the weights ``columns`` of one text, and in the gate logits of expansion terms.

        In expansion-only, the weight 1 of a term that the gate alone adds comes from no token.
        """
        literal = self.bag_of_words.literal_positions(input_ids, attention_mask)
        if self.importance is None:
            term_shares = [merged_shares(literal.float(), input_ids, literal, columns, "sum")]
        else:
            states = self.importance.states(input_ids, attention_mask)
            term_shares = [pooled_shares(*states, columns, pooling="sum")]
        if self.gate is None:
            return term_shares
        gated = columns[~torch.isin(columns, input_ids[literal])]
        return term_shares + self.gate.shares(input_ids, attention_mask, gated)


class GateObjective(Objective):
    """Eq. 8 alone: on pairs of a query and its positive passage, the gate learns to open for the terms of the query."""

    towers: tuple[str, ...] = ("gate",)
    ranks = False

    def __init__(self, document: SparTerm) -> None:
        self._document, self._gate = document, cast(Gate, document.gate)

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        """``gate``: logits of the positives; ``target``: terms of the queries; both ``(n, vocabulary)``."""
        positives = (tensor[: len(queries.input_ids)] for tensor in documents)
        return {"gate": self._gate(*positives).float(), "target": self._document.target_terms(*queries)}

    def losses(self, outputs: Mapping[str, Tensor], labels: Labels) -> dict[str, Tensor]:  # noqa: ARG002
        """Eq. 8 of each passage."""
        return {"gate_loss": gate_bce(outputs["gate"], outputs["target"])}


class JointObjective(GateObjective):
    """Eq. 9: the ranking loss and Eq. 8 at once; the gate of documents is computed once for both."""

    ranks = True

    def __init__(self, ranking: Objective, weighers: TermWeighers, document: SparTerm) -> None:
        super().__init__(document)
        self._ranking, self._weighers = ranking, weighers
        self.towers = (*ranking.towers, *GateObjective.towers)

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        """Outputs of both objectives."""
        count = len(queries.input_ids)
        query_weights = self._weighers.query(*queries)
        logits = self._gate(*documents)
        weights = self._document(*documents, gate_logits=logits).float()
        return {
            "queries": query_weights.float(),
            "positives": weights[:count],
            "negatives": weights[count:],
            "gate": logits[:count].float(),
            "target": self._document.target_terms(*queries),
        }

    def losses(self, outputs: Mapping[str, Tensor], labels: Labels) -> dict[str, Tensor]:
        """The ranking loss and Eq. 8 of each query."""
        return {**super().losses(outputs, labels), **self._ranking.losses(outputs, labels)}


def gate_bce(logits: Tensor, target: Tensor, *, negative: float = 1e-3, positive: float = 1.0) -> Tensor:
    """Eq. 8 of each passage, ``(passages,)``: ``-l1 sum_{T=0} log(1 - G) - l2 sum_{T=1} log G``, G = sigmoid(logits).

    ``logits`` and ``target`` have shape ``(passages, vocabulary)``; ``target`` is the binary bag of words of the query.
    The sums run over the vocabulary. l1 = ``negative`` = 1e-3 and l2 = ``positive`` = 1 are the paper's (§4.2).

    >>> round(gate_bce(torch.zeros(1, 3), torch.tensor([[0.0, 0.0, 1.0]])).item(), 5)  # (2 * 0.001 + 1) * log 2
    0.69453
    """
    # -log(1 - sigmoid(x)) = softplus(x) and -log sigmoid(x) = softplus(-x): finite for every x
    absent = functional.softplus(logits) * (1 - target)
    present = functional.softplus(-logits) * target
    return (negative * absent + positive * present).sum(dim=1)
