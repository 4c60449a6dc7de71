"""What a stage trains and searches with: the whole model, or one component of both its sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from encoders.models import TermWeighers
from encoders.training.recipe import Stage
from learned_sparse.core import LearnedSparseError, did_you_mean


@dataclass(frozen=True)
class Part:
    """The modules of both sides, each ``(input_ids, attention_mask) -> weights``."""

    query: nn.Module
    document: nn.Module
    component: str | None = None
    """``None``: the whole model."""

    def parameters(self) -> list[nn.Parameter]:
        """Of both sides, each once."""
        found = [*self.document.parameters(), *self.query.parameters()]
        return list({id(parameter): parameter for parameter in found}.values())


def components_of(side: nn.Module) -> Mapping[str, nn.Module]:
    """The components of one side of a model; none if it has no parts."""
    found: Mapping[str, nn.Module] = getattr(side, "components", {})
    return found


def part_of(weighers: TermWeighers, component: str | None) -> Part:
    """``component`` alone, or everything; a side without components (a bag of words) is the same for all of them."""
    if component is None:
        return Part(weighers.query, weighers.document)
    known = components_of(weighers.document)
    if component not in known:
        there = f"the model has {', '.join(known)}" if known else "the model has no components"
        raise LearnedSparseError(f"no component {component!r}; {there}{did_you_mean(component, known)}")
    queries = components_of(weighers.query)
    if queries and component not in queries:
        raise LearnedSparseError(f"component {component!r}: the settings leave it out of queries; give it a weight")
    return Part(queries.get(component, weighers.query), known[component], component)


def trained_components(stage: Stage) -> tuple[str | None, ...]:
    """The components that ``stage`` trains, each on its own; ``(None,)``: the whole model at once."""
    return stage.cotraining.components if stage.cotraining is not None else (stage.component,)
