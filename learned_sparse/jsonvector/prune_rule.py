"""Which dimensions of an index are pruned: those that too many documents have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from learned_sparse.core import LearnedSparseError


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One of the two is given.

    The first is SpaDE's corpus-level pruning (section 3.4: terms in more than ``γ|D|`` documents are removed), counted
    over the documents that are there instead of over those of the training.
    """

    max_document_frequency: float | None = None
    """γ: the largest share of the documents that a dimension may have to be kept, above 0 and at most 1."""
    top_dimensions: int | None = None
    """So many of the most frequent dimensions are removed; of equally frequent ones the first by code point."""

    def __post_init__(self) -> None:
        share, top = self.max_document_frequency, self.top_dimensions
        if (share is None) == (top is None):
            raise LearnedSparseError("give one of --max-document-frequency SHARE and --top-dimensions N")
        if share is not None and not 0 < share <= 1:
            raise LearnedSparseError(
                f"--max-document-frequency {share}: give a share of the documents, above 0 and at most 1 (all is kept)"
            )
        if top is not None and top < 0:
            raise LearnedSparseError(f"--top-dimensions {top}: give 0 (all is kept) or more")

    def removed(self, frequencies: Mapping[str, int], documents: int) -> dict[str, int]:
        """The dimensions to remove, the most frequent first, and in how many of ``documents`` each is.

        >>> frequencies = {"hives": 2, "the": 10, "of": 7}
        >>> Rule(max_document_frequency=0.6).removed(frequencies, 10)
        {'the': 10, 'of': 7}
        >>> Rule(max_document_frequency=0.7).removed(frequencies, 10)  # as many as γ says stay
        {'the': 10}
        >>> Rule(top_dimensions=1).removed(frequencies, 10)
        {'the': 10}
        """
        if self.max_document_frequency is not None:
            return more_frequent(frequencies, documents, self.max_document_frequency)
        return dict(by_frequency(frequencies)[: self.top_dimensions])

    def to_json(self) -> dict[str, Any]:
        """The one that is given."""
        if self.top_dimensions is not None:
            return {"top_dimensions": self.top_dimensions}
        return {"max_document_frequency": self.max_document_frequency}


def more_frequent(frequencies: Mapping[str, int], documents: int, share: float) -> dict[str, int]:
    """The dimensions that more than ``share`` of ``documents`` have, the most frequent first."""
    # A quotient of whole numbers is the float next to it, as 0.7 is to what a person writes; 0.29 * 100 is below 29.
    return {term: count for term, count in by_frequency(frequencies) if count / documents > share}


def by_frequency(frequencies: Mapping[str, int]) -> list[tuple[str, int]]:
    """The most frequent first, equally frequent ones by code point."""
    return sorted(frequencies.items(), key=lambda item: (-item[1], item[0]))
