"""What an architecture is: its settings, the towers it needs, and how each side is put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from encoders.masked_lm import Tower
from encoders.vocabulary import Vocabulary

Side = Literal["query", "document"]
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


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A model family. ``S`` below is its settings dataclass."""

    settings: type[Any]
    """``S``: frozen; every choice its paper leaves open has a name and a default there."""
    towers: Callable[[Any, Side], tuple[str, ...]]
    """``(S, side)`` to the names of the towers that side reads; a bag of words reads none."""
    weigher: Callable[[Any, Side, Mapping[str, Tower], Vocabulary], nn.Module]
    """``(S, side, towers, vocabulary)`` to the module of that side; ``towers`` may hold just this side's."""
    scale: Callable[[Any, Side], float | None]
    """``(S, side)`` to the factor from weights to impacts; ``None``: calibrate on the model's own weights."""
    scoring: Callable[[Any], Literal["impact", "bm25"]] = lambda _: "impact"
    """``bm25``: document weights are term frequencies."""
    shared: Callable[[Any], bool] = lambda _: False
    """Whether both sides are one module."""

    def tower_names(self, settings: Any) -> tuple[str, ...]:
        """The towers of both sides, documents' first."""
        return tuple(dict.fromkeys((*self.towers(settings, "document"), *self.towers(settings, "query"))))

    def build(self, settings: Any, towers: Mapping[str, Tower], vocabulary: Vocabulary) -> TermWeighers:
        """Both sides."""
        document = self.weigher(settings, "document", towers, vocabulary)
        shared = self.shared(settings)
        return TermWeighers(document if shared else self.weigher(settings, "query", towers, vocabulary), document)
