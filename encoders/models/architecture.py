"""What an architecture is: settings, towers, the modules of both sides, and what training needs to know of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from encoders.backbone import MASKED_LM, TowerKind
from encoders.checkpoints import Vocabulary
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

if TYPE_CHECKING:
    from encoders.training import Stage

SIDES: tuple[Side, Side] = ("query", "document")


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


class Tokens(NamedTuple):
    """Tokenized texts, padded to the longest: the arguments of a side, both ``(texts, tokens)``."""

    input_ids: Tensor
    attention_mask: Tensor

    def to(self, device: torch.device) -> Tokens:
        """The same tokens on ``device``."""
        return Tokens(self.input_ids.to(device), self.attention_mask.to(device))


class Labels(NamedTuple):
    """What is known about the documents that the n queries of a batch are ranked against."""

    known: Tensor
    """``(n, documents)`` of bool: documents known to be relevant to a query, its own positive left out."""
    scores: Tensor | None = None
    """``(n, 1 + per_query)``: a teacher's scores of the own positive and hard negatives; NaN where it gave none."""


class Objective(Protocol):
    """What a training stage minimises: one forward pass, and a loss for each query."""

    towers: tuple[str, ...]
    """Names of the towers that the objective trains; all others are frozen."""
    ranks: bool
    """Whether the trained part can rank documents, so that it can be validated and can mine hard negatives."""

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        """Outputs of one forward pass over n queries; every tensor has one row for each query or document.

        ``documents`` are the n positives, then the hard negatives query by query. A ranking objective gives the weights
        ``queries`` and ``positives``, ``(n, dimensions)``, and ``negatives`` ``(n * per_query, dimensions)``: these are
        regularised and counted in the log. Rows of several passes and processes are concatenated by name.
        """

    def losses(self, outputs: Mapping[str, Tensor], labels: Labels) -> dict[str, Tensor]:
        """The parts of the loss by name in the log, each ``(n,)``; training minimises the sum of their means."""


class Prunable(Protocol):
    """A document side whose frequent terms can be pruned."""

    @property
    def unpruned(self) -> Mapping[str, nn.Module]:
        """Component name to that component before pruning: the weights that document frequencies are counted on."""

    def set_frequencies(self, shares: Tensor, gamma: float, *, cumulative: bool = False) -> int:
        """Prune the terms whose share of documents in ``shares`` ``(dimensions,)`` is larger than ``gamma``.

        ``cumulative``: and those that are pruned already. Returns the number of pruned terms.
        """


@dataclass(frozen=True)
class Mixture:
    """One way to weigh the components of a model against each other, tried on validation queries."""

    settings: Mapping[str, Any]
    """Changes of ``S`` that give this mixture, for instance ``{"alpha": 0.4}``."""
    factors: Mapping[str, float]
    """Component to the factor of its score: the whole is ``sum_c factor_c * (query_c . document_c)``."""


def check_options(stage: Stage, *, objectives: Collection[str] = ("rank",), options: Collection[str] = ()) -> None:
    """Raise if ``stage`` asks for an objective or an option (``joint``, ``pointwise``) that is not listed."""
    if stage.objective not in objectives:
        hint = did_you_mean(stage.objective, objectives)
        raise LearnedSparseError(
            f"stage {stage.name}: this architecture has no objective {stage.objective!r}; it has "
            f"{', '.join(objectives)}{hint}"
        )
    used = {"joint": stage.joint, "pointwise": stage.pointwise.weight != 0}
    for option in (name for name, value in used.items() if value and name not in options):
        raise LearnedSparseError(f"stage {stage.name}: this architecture has no option {option!r}; leave it out")


def ranking_only(ranking: Objective, stage: Stage, weighers: TermWeighers) -> Objective:
    """The objective of an architecture without a loss of its own: the ranking loss of the stage."""
    del weighers
    check_options(stage)
    return ranking


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model family. ``S`` below is its settings dataclass."""

    settings: type[Any]
    """``S``: frozen; every choice its paper leaves open has a name and a default there."""
    towers: Callable[[Any, Side], tuple[str, ...]]
    """``(S, side)`` to the names of the towers that the side reads; a bag of words reads none."""
    weigher: Callable[[Any, Side, Mapping[str, Any], Vocabulary], nn.Module]
    """``(S, side, towers, vocabulary)`` to the module of that side; ``towers`` may hold this side's towers only."""
    scale: Callable[[Any, Side], float | None]
    """``(S, side)`` to the factor from weights to impacts; ``None``: calibrate on the weights of the trained model."""
    scoring: Callable[[Any], Literal["impact", "bm25"]] = lambda _: "impact"
    """``bm25``: document weights are term frequencies."""
    shared: Callable[[Any], bool] = lambda _: False
    """Whether both sides are one module."""
    tower: Callable[[Any, str], TowerKind] = lambda _settings, _name: MASKED_LM
    """``(S, tower name)`` to the kind of that tower."""
    terms: Callable[[Any, Vocabulary], Sequence[str]] = lambda _, vocabulary: vocabulary.terms
    """``(S, vocabulary)`` to the spelling of each dimension in the index."""
    uses_expanded: Callable[[Any], bool] = lambda _: False
    """Whether documents are read with their expansion text (``Document.expanded``) if they have one."""
    changeable: frozenset[str] = frozenset()
    """Fields of ``S`` that may differ from the checkpoint's when texts are encoded."""
    stage_settings: frozenset[str] = frozenset()
    """Fields of ``S`` that a stage of training may change: those that change neither towers nor names of modules."""
    query_only_settings: frozenset[str] = frozenset()
    """Those of the changeable fields that affect queries only: an index stays valid when they change."""

    objective: Callable[[Objective, Stage, TermWeighers], Objective] = ranking_only
    """``(ranking, stage, weighers)`` to what ``stage`` minimises: ``ranking``, the ranking loss that the stage names,
    or an objective of the architecture that replaces or extends it. ``stage.objective`` is free for its names."""
    ranking_towers: Callable[[Any], tuple[str, ...] | None] = lambda _: None
    """``S`` to the towers whose outputs become term weights: a ranking loss trains them, ``idf_bias`` raises their
    output biases. ``None``: all towers."""
    components: Callable[[nn.Module], Mapping[str, nn.Module]] = lambda _: {}
    """A side to its components by name: modules like a side that can be trained and searched alone."""
    mixtures: Callable[[Any], Sequence[Mixture]] = lambda _: ()
    """``S`` to the mixtures of components that validation chooses from; empty: nothing is mixed."""
    prunable: Callable[[nn.Module], Prunable | None] = lambda _: None
    """The document side as one whose terms can be pruned; ``None``: they cannot."""
    learned: Callable[[nn.Module], Mapping[str, Any]] = lambda _: {}
    """The document side to the fields of ``S`` that training has found; the checkpoint stores them."""

    def tower_names(self, settings: Any) -> tuple[str, ...]:
        """The towers of both sides, those of documents first."""
        return tuple(dict.fromkeys((*self.towers(settings, "document"), *self.towers(settings, "query"))))

    def trained_by_ranking(self, settings: Any) -> tuple[str, ...]:
        """The names of ``ranking_towers``."""
        names = self.ranking_towers(settings)
        return self.tower_names(settings) if names is None else names

    def build(self, settings: Any, towers: Mapping[str, Any], vocabulary: Vocabulary) -> TermWeighers:
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
