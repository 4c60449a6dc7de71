"""How alike two sets of integer vectors of the same texts are, and two runs of the same queries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Vector = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Means over texts, and shares of all integers of all texts; a term that one of two lacks is a 0 there."""

    texts: int
    cosine: float
    jaccard: float
    """Terms that both have, of those that either has."""
    equal: float
    """Share of the integers that are the same."""
    within_one: float
    """Share of the integers that differ by 1 at the most."""


def agreement(pairs: Iterable[tuple[Vector, Vector]]) -> Agreement:
    """Of the two vectors of every text (at least one text).

    >>> found = agreement([({"hives": 3, "itch": 1}, {"hives": 4}), ({}, {})])
    >>> round(found.cosine, 4), found.jaccard, found.equal, found.within_one
    (0.9743, 0.75, 0.0, 1.0)
    """
    texts = integers = equal = within_one = 0
    cosine = jaccard = 0.0
    for one, other in pairs:
        either = one.keys() | other.keys()
        differences = [abs(one.get(term, 0) - other.get(term, 0)) for term in either]
        texts += 1
        integers += len(either)
        equal += differences.count(0)
        within_one += sum(difference <= 1 for difference in differences)
        cosine += _cosine(one, other)
        jaccard += len(one.keys() & other.keys()) / len(either) if either else 1.0
    return Agreement(
        texts=texts,
        cosine=cosine / texts,
        jaccard=jaccard / texts,
        equal=equal / integers if integers else 1.0,
        within_one=within_one / integers if integers else 1.0,
    )


def shared_at_the_top(
    run: Mapping[str, Sequence[tuple[str, float]]], other: Mapping[str, Sequence[tuple[str, float]]], k: int
) -> float:
    """Mean over the queries of ``run``: documents in both top ``k``, of the more that either has there.

    >>> shared_at_the_top({"q": [("d1", 2), ("d2", 1)]}, {"q": [("d2", 3)]}, 10)
    0.5
    """
    shares = []
    for query, hits in run.items():
        top, of_other = ({id for id, _ in some[:k]} for some in (hits, other[query]))
        most = max(len(top), len(of_other))
        shares.append(len(top & of_other) / most if most else 1.0)
    return sum(shares) / len(shares)


def _cosine(one: Vector, other: Vector) -> float:
    """Of two vectors without terms it is 1, of one of them 0."""
    lengths = math.hypot(*one.values()) * math.hypot(*other.values())
    if not lengths:
        return float(not one and not other)
    return sum(value * other.get(term, 0) for term, value in one.items()) / lengths
