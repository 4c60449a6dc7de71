"""Queries by how many of their word pieces the relevant document has: the classes of SpaDE's Table 4.

A query is ``Match all`` if every one of its pieces is in the document, else ``Match <= 1`` if none or one is, else
``Match > 1`` (SpaDE, section 5.1). The paper leaves open, and this module decides:

- pieces are distinct: one that a query repeats counts once;
- all pieces count, those of stop words and punctuation too;
- of several relevant documents (MS MARCO's development queries have 1.07 on average), the one that shares the most
  pieces with the query decides: a searcher by words could have found that one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass

CLASSES = ("Match <= 1", "Match > 1", "Match all")


@dataclass(frozen=True)
class Overlap:
    """How many distinct pieces a query has, and how many of them are in its relevant document."""

    pieces: int
    matched: int

    @property
    def name(self) -> str:
        """One of ``CLASSES``.

        >>> Overlap(pieces=1, matched=1).name, Overlap(pieces=3, matched=1).name
        ('Match all', 'Match <= 1')
        """
        if self.pieces and self.matched == self.pieces:
            return "Match all"
        return "Match <= 1" if self.matched <= 1 else "Match > 1"


def overlap(query: Set[int], relevant: Iterable[Set[int]]) -> Overlap:
    """Of the pieces of a query with those of its relevant documents (at least one).

    >>> overlap({1, 2, 3}, [{1, 9}, {2, 3, 9}])
    Overlap(pieces=3, matched=2)
    """
    return Overlap(len(query), max(len(query & document) for document in relevant))


def by_class(overlaps: Mapping[str, Overlap]) -> dict[str, list[str]]:
    """The ids of the queries in each class, in the order given."""
    return {name: [query for query, found in overlaps.items() if found.name == name] for name in CLASSES}


def with_matches(overlaps: Mapping[str, Overlap], queries: Collection[str], matched: int) -> int:
    """How many of ``queries`` share exactly ``matched`` pieces."""
    return sum(overlaps[query].matched == matched for query in queries)
