"""Term weighting without expansion by the model: uniCOIL, DeepImpact, TILDEv2 and DeepCT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor, nn

from encoders.backbone.hidden_states import HiddenStates, HiddenStatesKind
from encoders.checkpoints.notes import Weighting
from encoders.checkpoints.tokenizer import Vocabulary
from encoders.models.architecture import Architecture, OneTowerArchitecture
from encoders.models.objectives import Labels, Objective, TermWeighers, Tokens
from encoders.models.token_weights import Activation, Repeats, TokenWeights, linear_head, two_layer_head
from learned_sparse.core.encoder import Side

if TYPE_CHECKING:
    from encoders.training.recipe import Stage


@dataclass(frozen=True, kw_only=True)
class UniCoilSettings(OneTowerArchitecture):
    """Lin and Ma (2021), after COIL's published code: one linear layer and ReLU over the last hidden states."""

    head: Literal["linear", "two-layer"] = "linear"
    """Network that scores the last hidden state of a token."""
    repeats: Repeats = "max"
    """Weight of a term that occurs several times in a document, from its scores."""
    activation: Activation = "relu"
    """After the head."""
    query_repeats: Repeats = "sum"
    """As ``repeats``, for neural queries. COIL's score is a sum over the tokens of the query, with repetitions."""
    separators: bool = False
    """Whether the [SEP] between a text and its expansion is a term; Pyserini's encoder weighs every [SEP]."""
    expanded: bool = True
    """Whether documents are read with their expansion text if the collection has one."""
    dropout: float = 0.0
    """Before a two-layer head."""

    @property
    def kind(self) -> HiddenStatesKind:
        """Hidden states with a head of one or two layers."""

        def head(hidden_size: int) -> nn.Module:
            return two_layer_head(hidden_size, self.dropout) if self.head == "two-layer" else linear_head(hidden_size)

        return HiddenStatesKind(head)

    def network_side(self, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
        """``TokenWeights``."""
        name = next(iter(self.networks(side)))
        return TokenWeights(
            towers[name],
            vocabulary,
            repeats=self.repeats if side == "document" else self.query_repeats,
            activation=self.activation,
            special_tokens=self.bow_special_tokens,
            separators=self.separators,
        )

    @property
    def shared(self) -> bool:
        """Whether queries have the same tower and the same weights of repeated terms."""
        return super().shared and self.query_repeats == self.repeats

    @property
    def uses_expanded(self) -> bool:  # type: ignore[override]
        """As the setting says."""
        return self.expanded


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
    query_weighting: Weighting = "tf"


@dataclass(frozen=True, kw_only=True)
class DeepCTSettings(Architecture):
    """Dai and Callan (2019), after the published code: documents weighted by predicted query term recall, for BM25.

    Terms are word pieces here; the published index has whole, stemmed words.
    """

    scale: float = 100.0
    """N: the term frequency of a predicted recall of 1; the paper and its code recommend 100."""
    smoothing: Literal["none", "sqrt"] = "none"
    """Of the predicted recall before scaling. ``sqrt`` is HDCT's code (Dai and Callan 2020)."""
    dropout: float = 0.1
    """Before the linear layer, as in the published code."""
    expanded: bool = False
    """Whether documents are read with their expansion text; the paper has none."""

    changeable = frozenset({"scale", "smoothing"})
    objectives = ("term_recall",)
    scoring = "bm25"
    query_bag = ("tf", "none")
    network_scale = 1.0  # weights are term frequencies

    def networks(self, side: Side) -> Mapping[str, HiddenStatesKind]:  # noqa: ARG002
        """Hidden states with dropout and one linear layer."""
        return {"document": HiddenStatesKind(lambda size: nn.Sequential(nn.Dropout(self.dropout), linear_head(size)))}

    def network_side(self, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:  # noqa: ARG002
        """``RecallWeights``."""
        return RecallWeights(self, towers["document"], vocabulary)

    @property
    def uses_expanded(self) -> bool:  # type: ignore[override]
        """As the setting says."""
        return self.expanded

    def objective(self, ranking: Objective, stage: Stage, weighers: TermWeighers) -> Objective:  # noqa: ARG002
        """``term_recall`` only."""
        return TermRecall(cast("RecallWeights", weighers.document))


class RecallWeights(TokenWeights):
    """Pseudo term frequencies of a text's own word pieces: ``scale`` times the predicted recall of their words.

    The score of a word is that of its first piece, and all its pieces have it. Of several occurrences the largest
    counts. A frequency below 1 is 0: without smoothing the published code drops it before it rounds.
    """

    def __init__(self, settings: DeepCTSettings, tower: HiddenStates, vocabulary: Vocabulary) -> None:
        super().__init__(tower, vocabulary, repeats="max")
        self._settings = settings
        self._continues: Tensor
        self.register_buffer("_continues", torch.tensor(vocabulary.continues), persistent=False)

    def words(self, input_ids: Tensor, attention_mask: Tensor) -> list[dict[int, tuple[int, ...]]]:
        """The words of each text: position of the first piece to the ids of all pieces."""
        literal = self.bag_of_words.literal_positions(input_ids, attention_mask).tolist()
        continues = self._continues[input_ids].tolist()
        texts: list[dict[int, tuple[int, ...]]] = []
        for ids, counted, continued in zip(input_ids.tolist(), literal, continues, strict=True):
            words: dict[int, tuple[int, ...]] = {}
            first = None
            for position, id in enumerate(ids):
                if not counted[position]:
                    first = None
                elif first is None or not continued[position]:
                    first = position
                    words[first] = (id,)
                else:
                    words[first] = (*words[first], id)
            texts.append(words)
        return texts

    def _scores(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Frequencies, not rounded, ids, and which positions are terms, each ``(batch, tokens)``."""
        counted = self.bag_of_words.literal_positions(input_ids, attention_mask)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        begins = ~(self._continues[input_ids] & counted & counted.roll(1, dims=1))
        first = positions.masked_fill(~begins, 0).cummax(dim=1).values
        recall = self.token_scores(input_ids, attention_mask).gather(1, first).relu()
        if self._settings.smoothing == "sqrt":
            positive = recall > 0
            recall = torch.where(positive, recall, 1.0).sqrt() * positive  # the root has no gradient at 0
            return recall * self._settings.scale, input_ids, counted
        frequencies = recall * self._settings.scale
        return frequencies.masked_fill(frequencies < 1, 0.0), input_ids, counted


class TermRecall(Objective):
    """DeepCT: the mean squared error of the predicted recall of the words of each positive.

    The target of a word is 1 if the query has it, else 0: over the queries of a document its mean is the query term
    recall |Q_{d,t}| / |Q_d| of the paper, and so the training data are published, one line for each pair. Words are
    equal if all their pieces are, as BM25 over word pieces compares them; the published data compare Porter stems and
    leave stop words out.
    """

    towers: tuple[str, ...] = ("document",)
    ranks = False

    def __init__(self, document: RecallWeights) -> None:
        self._document = document

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        """``errors``: sum of the squared errors of a positive's words; ``words``: their number; both ``(n,)``."""
        count = len(queries.input_ids)
        positives = Tokens(documents.input_ids[:count], documents.attention_mask[:count])
        predicted = self._document.token_scores(*positives)
        targets, mask = torch.zeros(2, *predicted.shape)  # filled on the CPU, copied once
        words = zip(self._document.words(*positives), self._document.words(*queries), strict=True)
        for row, (in_document, in_query) in enumerate(words):
            sought = set(in_query.values())
            for position, word in in_document.items():
                mask[row, position], targets[row, position] = 1.0, float(word in sought)
        targets, mask = targets.to(predicted.device), mask.to(predicted.device)
        return {"errors": ((predicted - targets).square() * mask).sum(dim=1), "words": mask.sum(dim=1)}

    def losses(self, outputs: Mapping[str, Tensor], labels: Labels) -> dict[str, Tensor]:  # noqa: ARG002
        """Shares of the mean over all words of the batch (published code: SUM_BY_NONZERO_WEIGHTS), whose mean it is."""
        words = outputs["words"]
        return {"recall_loss": outputs["errors"] * (len(words) / words.sum().clamp(min=1))}
