"""What an architecture is: its settings, the towers it needs, and how each side is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from encoders.backbone import MASKED_LM, TowerKind
from encoders.checkpoints import Vocabulary
from learned_sparse.core import Side

SIDES: tuple[Side, Side] = ("query", "document")


class TermWeighers(nn.Module):
    """The two sides of a model, each ``(input_ids, attention_mask) -> weights (batch, dimensions) >= 0``.

    Shared weights: the same module twice, or two modules with the same tower.
    """

    def __init__(self, query: nn.Module, document: nn.Module) -> None:
        super().__init__()
        self.query = query
        self.document = document

    def side(self, side: Side) -> nn.Module:
        """The module of one side."""
        return self.query if side == "query" else self.document


@dataclass(frozen=True)
class Mixture:
    """One way to weigh the components of a model against each other, tried on validation queries."""

    settings: Mapping[str, Any]
    """Changes to ``S`` that make a model mix so, for instance ``{"alpha": 0.4}``."""
    factors: Mapping[str, float]
    """Component to the factor of its score: the whole is ``sum_c factor_c * (query_c . document_c)``."""


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model family. ``S`` below is its settings dataclass."""

    settings: type[Any]
    """``S``: frozen; every choice its paper leaves open has a name and a default there."""
    towers: Callable[[Any, Side], tuple[str, ...]]
    """``(S, side)`` to the names of the towers that side reads; a bag of words reads none."""
    weigher: Callable[[Any, Side, Mapping[str, Any], Vocabulary], nn.Module]
    """``(S, side, towers, vocabulary)`` to the module of that side; ``towers`` may hold just this side's.

    A module of parts that can be trained and searched alone has ``components``: a mapping of name to such a module.
    One with settings that training finds has ``learned()``: those settings as a mapping.
    """
    scale: Callable[[Any, Side], float | None]
    """``(S, side)`` to the factor from weights to impacts; ``None``: calibrate on the model's own weights."""
    scoring: Callable[[Any], Literal["impact", "bm25"]] = lambda _: "impact"
    """``bm25``: document weights are term frequencies."""
    shared: Callable[[Any], bool] = lambda _: False
    """Whether both sides are one module."""
    tower: Callable[[Any, str], TowerKind] = lambda _settings, _name: MASKED_LM
    """``(S, tower name)`` to the kind of that tower."""
    terms: Callable[[Any, Vocabulary], Sequence[str]] = lambda _, vocabulary: vocabulary.terms
    """``(S, vocabulary)`` to how each dimension is spelt in the index."""
    uses_expanded: Callable[[Any], bool] = lambda _: False
    """Whether documents are read with the text that expands them, where there is some (``Document.expanded``)."""
    mixtures: Callable[[Any], Sequence[Mixture]] = lambda _: ()
    """The mixtures of components to choose from in validation; none where nothing is mixed."""
    changeable: frozenset[str] = frozenset()
    """Fields of ``S`` that may differ from the checkpoint's when texts are encoded."""
    query_only_settings: frozenset[str] = frozenset()
    """Those of them that change queries only, so that an index need not be made anew."""

    def tower_names(self, settings: Any) -> tuple[str, ...]:
        """The towers of both sides, documents' first."""
        return tuple(dict.fromkeys((*self.towers(settings, "document"), *self.towers(settings, "query"))))

    def build(self, settings: Any, towers: Mapping[str, Any], vocabulary: Vocabulary) -> TermWeighers:
        """Both sides."""
        document = self.weigher(settings, "document", towers, vocabulary)
        shared = self.shared(settings)
        return TermWeighers(document if shared else self.weigher(settings, "query", towers, vocabulary), document)
