"""What a paper's table claims, held against our own numbers: which way a difference goes, and whether it is chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from eval.measures import SIGNIFICANT, Differences, Test, differences, p_value

COSTS = ("FLOPS", "terms/document", "terms/query", "index bytes", "ms/query", "p99 ms/query", "documents/s")
"""What a claim can be about besides the measures: one number a row, not one a query."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """``better`` against ``worse`` (names of rows) in ``quantity``: a measure, or one of ``COSTS``.

    ``higher`` and ``less``: ``better`` has more of it, or less. ``not lower``: it has no less of it. That something
    costs less at equal quality is two claims: ``less`` of the cost, ``not lower`` in the measure.
    """

    source: str
    """Paper and table."""
    better: str
    worse: str
    quantity: str
    kind: Literal["higher", "not lower", "less"] = "higher"
    columns: tuple[str, ...] = ()
    """Where it is claimed; empty: everywhere."""
    margin: float = 0.0
    """How much higher, or less, it is at least; how much lower a ``not lower`` one may be.

    In the units of a measure (0.01: a point of MRR); as a part of what ``worse`` costs (0.5: less than half of it).
    """


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What our numbers say of a claim."""

    difference: float
    """``better`` minus ``worse``."""
    p: float | None
    """Chance of a difference this far from the margin between equals, two-sided; None for costs."""
    holds: Literal["holds", "does not hold", "not significant"]


def judge(
    claim: Claim, better: Mapping[str, float], worse: Mapping[str, float], test: Test = "randomization"
) -> Verdict:
    """The verdict on a claim about a measure, from the scores of each query.

    A margin is taken off before testing. ``not lower`` without a margin holds unless it is surely lower: with few
    queries that says little. With a margin it has to be shown, as the others have: a test of non-inferiority.

    >>> claim = Claim(source="", better="a", worse="b", quantity="MRR@10")
    >>> judge(claim, {"1": 1.0, "2": 0.5}, {"1": 1.0, "2": 0.25}).holds
    'not significant'
    """
    found = differences(better, worse)
    beyond = _beyond(claim, found)
    p = p_value(beyond, test)
    return Verdict(difference=float(found.mean()), p=p, holds=_holds(claim, float(beyond.mean()), p))


def judge_cost(claim: Claim, better: float, worse: float) -> Verdict:
    """The verdict on a claim about a cost."""
    least = worse * (1 + claim.margin if claim.kind == "higher" else 1 - claim.margin)
    holds = {"higher": better > least, "not lower": better >= least, "less": better < least}[claim.kind]
    return Verdict(difference=better - worse, p=None, holds="holds" if holds else "does not hold")


def spelled(claim: Claim) -> str:
    """The claim in words.

    >>> spelled(Claim(source="", better="a", worse="b", quantity="FLOPS", kind="less", margin=0.5))
    'a: FLOPS less than b by more than 50 %'
    """
    margin = f"{100 * claim.margin:g} %" if claim.quantity in COSTS else f"{claim.margin:g}"
    words = f"{claim.better}: {claim.quantity} {claim.kind} than {claim.worse}"
    return f"{words} by more than {margin}" if claim.margin else words


def _beyond(claim: Claim, found: Differences) -> Differences:
    """How far each difference goes beyond what is claimed, in the direction claimed."""
    if claim.kind == "less":
        return -found - claim.margin
    return found + claim.margin if claim.kind == "not lower" else found - claim.margin


def _holds(claim: Claim, mean: float, p: float) -> Literal["holds", "does not hold", "not significant"]:
    if claim.kind == "not lower" and not claim.margin:
        return "does not hold" if mean < 0 and p < SIGNIFICANT else "holds"
    if p >= SIGNIFICANT:
        return "not significant"
    return "holds" if mean > 0 else "does not hold"
