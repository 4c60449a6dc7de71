"""What training and architectures tell each other: texts, labels, objectives, mixtures of components, pruning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor


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


@dataclass(frozen=True)
class Mixture:
    """One way to weigh the components of a model against each other, tried on validation queries."""

    settings: Mapping[str, Any]
    """Changes of ``S`` that give this mixture, for instance ``{"alpha": 0.4}``."""
    factors: Mapping[str, float]
    """Component to the factor of its score: the whole is ``sum_c factor_c * (query_c . document_c)``."""
