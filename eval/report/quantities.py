"""How measures, costs and verdicts are spelled in a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eval.measures import SIGNIFICANT

VERDICTS = {
    "holds": ("✓", "good"),
    "does not hold": ("✗", "bad"),
    "not significant": ("○", "unsure"),
    "not measured": ("–", "soft"),
    "equal": ("=", "good"),
    "within tolerance": ("≈", "good"),
    "worse": ("✗", "bad"),
    "better": ("+", "unsure"),
}
"""The sign that stands before a verdict, so that colour is never alone, and the class of its colour."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Something that a cell has a number of."""

    key: str
    heading: str
    digits: int
    best: Literal["highest", "lowest"] | None
    scale: float = 1.0
    """What is shown is the number times this."""
    cost: bool = True

    def show(self, value: float | None) -> str:
        """As it stands in a table; a dash where nothing is known.

        >>> COSTS[3].show(2_345_678), measure("MRR@10").show(None)
        ('2.35', '–')
        """
        return "–" if value is None else f"{value * self.scale:.{self.digits}f}"

    def best_of(self, values: Sequence[float | None]) -> str | None:
        """The best number as it is shown, when there are at least two to choose from: what looks equal is equal."""
        known = [value for value in values if value is not None]
        if self.best is None or len(known) < 2:
            return None
        return self.show(max(known) if self.best == "highest" else min(known))


def measure(name: str) -> Quantity:
    """One of trec_eval's measures, in the notation of the field."""
    return Quantity(key=name, heading=name, digits=4, best="highest", cost=False)


COSTS = (
    Quantity(key="FLOPS", heading="FLOPS", digits=3, best="lowest"),
    Quantity(key="terms/document", heading="terms/doc.", digits=1, best=None),
    Quantity(key="terms/query", heading="terms/query", digits=1, best=None),
    Quantity(key="index bytes", heading="index MB", digits=2, best="lowest", scale=1e-6),
    Quantity(key="ms/query", heading="ms/query", digits=2, best="lowest"),
    Quantity(key="p99 ms/query", heading="p99 ms", digits=2, best="lowest"),
    Quantity(key="documents/s", heading="documents/s", digits=1, best="highest"),
)


def mark(cell: Mapping[str, Any], key: str) -> str:
    """``▲`` or ``▼`` where a measure differs significantly from the baseline's.

    >>> mark({"difference": {"P@1": -0.2}, "p": {"P@1": 0.001}}, "P@1")
    '▼'
    """
    p, difference = (cell.get("p") or {}).get(key), (cell.get("difference") or {}).get(key)
    if p is None or not difference or p >= SIGNIFICANT:
        return ""
    return "▲" if difference > 0 else "▼"


def verdict(word: str) -> str:
    """A verdict with its sign.

    >>> verdict("does not hold")
    '✗ does not hold'
    """
    return f"{VERDICTS[word][0]} {word}"


def chance(p: float | None) -> str:
    """A p value as it is shown.

    >>> chance(0.00005), chance(0.0312), chance(None)
    ('< 0.001', '0.031', '–')
    """
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def signed(value: float | None) -> str:
    """A difference of measures or of costs, with a proper minus sign; four digits or so say enough.

    >>> signed(0.01234), signed(-12.5), signed(-2_345_678.9), signed(None)
    ('+0.0123', '−12.5', '−2,345,679', '–')
    """
    if value is None:
        return "–"
    digits = 4 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:+,.{digits}f}".replace("-", "−")
