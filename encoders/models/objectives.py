"""What training and architectures tell each other: both sides of a model, texts, labels, objectives, mixtures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from torch import Tensor, nn

from learned_sparse.core.errors import LearnedSparseError, did_you_mean

if TYPE_CHECKING:
    from encoders.checkpoints.tokenizer import Vocabulary
    from encoders.models.architecture import Architecture


class TermWeighers(nn.ModuleDict):
    """The two sides of a model, each ``(input_ids, attention_mask) -> weights (batch, dimensions) >= 0``.

    Sides with shared weights are the same module, or two modules that read the same tower. A side may have
    ``components``, modules like a side by name, which can be trained and searched alone; and ``learned()``, the
    settings that training has found.
    """

    query: nn.Module
    document: nn.Module

    @classmethod
    def of(cls, settings: Architecture, towers: Mapping[str, Any], vocabulary: Vocabulary) -> TermWeighers:
        """Both sides of the architecture ``settings``."""
        document = settings.weigher("document", towers, vocabulary)
        query = document if settings.shared else settings.weigher("query", towers, vocabulary)
        return cls({"query": query, "document": document})

    def part(self, component: str | None) -> TermWeighers:
        """Both sides of ``component``, or of the whole model; a side without components serves every component."""
        if component is None:
            return self
        queries, documents = (dict(getattr(side, "components", {})) for side in (self.query, self.document))
        if component not in documents:
            there = f"the model has {', '.join(documents)}" if documents else "the model has no components"
            raise LearnedSparseError(f"no component {component!r}; {there}{did_you_mean(component, documents)}")
        if queries and component not in queries:
            raise LearnedSparseError(f"component {component!r}: the settings leave it out of queries; give it a weight")
        return TermWeighers({"query": queries.get(component, self.query), "document": documents[component]})


class Tokens(NamedTuple):
    """Tokenized texts, padded to the longest: the arguments of a side, both ``(texts, tokens)``."""

    input_ids: Tensor
    attention_mask: Tensor


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


Mixture = tuple[Mapping[str, Any], Mapping[str, float]]
"""One way to weigh the components of a model against each other, tried on validation queries: the changes of the
settings that give it, for instance ``{"alpha": 0.4}``, and the factor of the score of each component. The whole is
``sum_c factor_c * (query_c . document_c)``."""
