"""What an architecture is, and modules that most have: bags of words, pooled masked-LMs.

An architecture is settings, towers, the modules of both sides, and what training asks of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import torch
from torch import Tensor, nn

from encoders.backbone.towers import LanguageModel, TermTable
from encoders.checkpoints.notes import as_json, changed_keys
from encoders.checkpoints.tokenizer import Vocabulary
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.settings import parse

if TYPE_CHECKING:
    from encoders.backbone.hidden_states import TowerKind
    from encoders.head.shares import Shares
    from encoders.models.objectives import Mixture, Objective
    from encoders.training.recipe import Stage

S = TypeVar("S")


SpecialTokens = Literal["none", "unknown", "separators", "all"]
"""Special tokens in a bag of words: none; [UNK] only (naver's ``clean_bow``); [UNK] and every [SEP] (uniCOIL of
Pyserini); all that the tokenizer adds."""
Weighting = Literal["binary", "tf", "idf", "learned"]
"""Weights of queries without a network; see ``BagOfWords``."""
TABLE_WEIGHTINGS = ("idf", "learned")
QUERY_WEIGHTS = "query_weights"
"""Name of the tower that is the table of queries."""


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
        from encoders.head.shares import merged_shares

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


def counted_tokens(vocabulary: Vocabulary, special_tokens: SpecialTokens, *, unused: bool = True) -> Tensor:
    """Which token ids count, ``(vocabulary,)`` of bool; ``unused``: whether those do that no text has."""
    kept = {"unknown": {vocabulary.unknown_id}, "separators": {vocabulary.unknown_id, vocabulary.separator_id}}
    excluded = () if unused else vocabulary.unused_ids
    if special_tokens != "all":
        excluded += tuple(token for token in vocabulary.special_ids if token not in kept.get(special_tokens, set()))
    return torch.ones(len(vocabulary), dtype=torch.bool).index_fill_(0, torch.tensor(excluded, dtype=torch.long), False)


def unblocked_terms(vocabulary: Vocabulary, *, block_special_terms: bool | Literal["special"]) -> Tensor:
    """Which dimensions may have weight, ``(vocabulary,)`` of bool; ``True`` blocks special and unused terms."""
    return counted_tokens(vocabulary, "none" if block_special_terms else "all", unused=block_special_terms is not True)


class PooledTower(nn.Module):
    """A tower, and the positions of a text that are pooled."""

    tower: Any

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

    def states(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of a language model: hidden states, pooled positions, decoder weight and bias, as ``pool`` takes them."""
        pooled = self.pooled_positions(input_ids, attention_mask)
        return self.tower(input_ids, attention_mask), pooled, self.tower.decoder_weight, self.tower.decoder_bias


class TermWeighers(nn.Module):
    """The two sides of a model, each ``(input_ids, attention_mask) -> weights (batch, dimensions) >= 0``.

    Sides with shared weights are the same module, or two modules that read the same tower.
    """

    def __init__(self, query: nn.Module, document: nn.Module) -> None:
        super().__init__()
        self.query = query
        self.document = document

    def side(self, side: Side) -> nn.Module:
        """The module of one side."""
        return self.query if side == "query" else self.document


class Architecture(ABC, Generic[S]):
    """A model family; ``S`` is its settings dataclass.

    A new one writes ``networks`` and ``network_side``; all other methods have defaults. A side reads *towers*:
    networks, or the table of weights of a bag of words.
    """

    settings: type[S]
    """Frozen; every choice its paper leaves open has a name and a default there."""
    changeable: frozenset[str] = frozenset()
    """Fields of ``S`` that may differ from the checkpoint's when texts are encoded."""
    stage_settings: frozenset[str] = frozenset()
    """Fields of ``S`` that a stage of training may change: those that change neither towers nor names of modules."""
    objectives: tuple[str, ...] = ("rank",)
    """What ``objective`` of a stage can name, besides ``mlm``."""
    query_only_settings: frozenset[str] = frozenset()
    """Those of the changeable fields that affect queries only: an index stays valid when they change."""

    @abstractmethod
    def networks(self, settings: S, side: Side) -> tuple[str, ...]:
        """Names of the towers of a side that has a network."""

    @abstractmethod
    def network_side(self, settings: S, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
        """The module of a side that has a network; ``towers`` may hold this side's towers only."""

    def query_bag(self, settings: S) -> tuple[Weighting, SpecialTokens] | None:  # noqa: ARG002
        """Weighting and special tokens of queries without a network; ``None``: queries have a network."""
        return None

    def network_scale(self, settings: S) -> float | None:  # noqa: ARG002
        """Factor from weights of a network to impacts; ``None``: calibrate on the weights of the trained model."""
        return None

    def tower(self, settings: S, name: str) -> TowerKind:  # noqa: ARG002
        """The kind of a tower: by default, a language model or the table of queries."""
        return TermTable if name == QUERY_WEIGHTS else LanguageModel

    def scoring(self, settings: S) -> Literal["impact", "bm25"]:  # noqa: ARG002
        """``bm25``: document weights are term frequencies."""
        return "impact"

    def shared(self, settings: S) -> bool:  # noqa: ARG002
        """Whether both sides are one module."""
        return False

    def terms(self, settings: S, vocabulary: Vocabulary) -> Sequence[str]:  # noqa: ARG002
        """The spelling of each dimension in the index."""
        return vocabulary.terms

    def uses_expanded(self, settings: S) -> bool:  # noqa: ARG002
        """Whether documents are read with their expansion text (``Document.expanded``) if they have one."""
        return False

    def objective(self, ranking: Objective, stage: Stage, weighers: TermWeighers) -> Objective:  # noqa: ARG002
        """What ``stage`` minimises: ``ranking``, the ranking loss that the stage names, or an objective of the
        architecture that replaces or extends it.
        """
        return ranking

    def trained_by_ranking(self, settings: S) -> tuple[str, ...]:
        """The towers whose outputs become term weights: a ranking loss trains them, ``idf_bias`` raises their output
        biases. A table of inverse document frequencies is not trained.
        """
        bag = self.query_bag(settings)
        fixed = {QUERY_WEIGHTS} if bag and bag[0] == "idf" else set()
        return tuple(name for name in self.tower_names(settings) if name not in fixed)

    def components(self, side: nn.Module) -> Mapping[str, nn.Module]:  # noqa: ARG002
        """The components of a side by name: modules like a side that can be trained and searched alone."""
        return {}

    def mixtures(self, settings: S) -> Sequence[Mixture]:  # noqa: ARG002
        """The mixtures of components that validation chooses from; empty: nothing is mixed."""
        return ()

    def learned(self, document: nn.Module) -> Mapping[str, Any]:  # noqa: ARG002
        """The fields of ``S`` that training has found; the checkpoint stores them."""
        return {}

    # What follows is derived.

    def towers(self, settings: S, side: Side) -> tuple[str, ...]:
        """Names of the towers that a side reads; a bag of words reads none, or its table."""
        bag = self.query_bag(settings) if side == "query" else None
        if bag is None:
            return self.networks(settings, side)
        return (QUERY_WEIGHTS,) if bag[0] in TABLE_WEIGHTINGS else ()

    def tower_names(self, settings: S) -> tuple[str, ...]:
        """The towers of both sides, those of documents first."""
        return tuple(dict.fromkeys((*self.towers(settings, "document"), *self.towers(settings, "query"))))

    def weigher(self, settings: S, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
        """The module of a side."""
        bag = self.query_bag(settings) if side == "query" else None
        if bag is None:
            return self.network_side(settings, side, towers, vocabulary)
        return BagOfWords(vocabulary, *bag, towers.get(QUERY_WEIGHTS))

    def quantizer(self, settings: S, side: Side) -> Quantizer | None:
        """The quantiser of a side, None if it has to be calibrated: counts are whole numbers, a table is about 1."""
        bag = self.query_bag(settings) if side == "query" else None
        if bag is not None:
            return Quantizer(100.0 if bag[0] in TABLE_WEIGHTINGS else 1.0)
        scale = self.network_scale(settings)
        return None if scale is None else Quantizer(scale)

    def changed(
        self, stored: Mapping[str, Any], changes: Mapping[str, Any], name: str, unrecorded: Collection[str] = ()
    ) -> tuple[S, frozenset[str]]:
        """The settings ``stored`` in a checkpoint with ``changes``, and the fields that differ.

        The ``changeable`` fields may be changed, and those that are ``unrecorded`` in the checkpoint. ``name`` opens
        error messages.
        """
        before = as_json(parse(self.settings, stored, f"{name}: settings"))
        after = parse(self.settings, {**before, **changes}, f"{name}: settings")
        return after, changed_keys(name, before, as_json(after), self.changeable.union(unrecorded))

    def build(self, settings: S, towers: Mapping[str, Any], vocabulary: Vocabulary) -> TermWeighers:
        """Both sides."""
        document = self.weigher(settings, "document", towers, vocabulary)
        shared = self.shared(settings)
        return TermWeighers(document if shared else self.weigher(settings, "query", towers, vocabulary), document)

    def part(self, weighers: TermWeighers, component: str | None) -> TermWeighers:
        """Both sides of ``component``, or of the whole model; a side without components serves every component."""
        if component is None:
            return weighers
        documents, queries = self.components(weighers.document), self.components(weighers.query)
        if component not in documents:
            there = f"the model has {', '.join(documents)}" if documents else "the model has no components"
            raise LearnedSparseError(f"no component {component!r}; {there}{did_you_mean(component, documents)}")
        if queries and component not in queries:
            raise LearnedSparseError(f"component {component!r}: the settings leave it out of queries; give it a weight")
        return TermWeighers(queries.get(component, weighers.query), documents[component])


class OneTowerArchitecture(Architecture[S]):
    """One tower for documents; queries share it, have their own, or are bags of words.

    The settings have ``query``: ``same``, ``separate`` or ``bag-of-words``, ``query_weighting`` and
    ``bow_special_tokens``.
    """

    def networks(self, settings: Any, side: Side) -> tuple[str, ...]:
        """``query`` is a tower of its own if the sides are separate."""
        return ("query",) if side == "query" and settings.query == "separate" else ("document",)

    def query_bag(self, settings: Any) -> tuple[Weighting, SpecialTokens] | None:
        """The bag of words of the settings, if queries are one."""
        bag = settings.query_weighting, settings.bow_special_tokens
        return bag if settings.query == "bag-of-words" else None

    def shared(self, settings: Any) -> bool:
        """Whether queries have the tower of documents."""
        return bool(settings.query == "same")
