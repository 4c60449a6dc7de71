"""Claims of papers: the paper's difference beside ours, its interval, and a verdict on its direction."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from eval.measures import PerQuery
from eval.stats import SIGNIFICANT, Estimate, difference, holm
from learned_sparse.core.errors import LearnedSparseError

COSTS = (
    "FLOPS", "terms/document", "terms/query", "index bytes", "ms/query", "mean ms/query", "p99 ms/query",
    "mean ms/query with encoding", "documents/s",
)  # fmt: skip
"""Costs that a claim can compare, besides measures: one number per row instead of one per query.

Index and times are of Lucene, or of the exact searcher in rows with ``backend: exact``.
"""
TIMES = ("ms/query", "mean ms/query", "p99 ms/query", "mean ms/query with encoding", "documents/s")
"""Costs that depend on the machine."""
NON_INFERIORITY = 0.01
"""Loss of a measure that "not lower" tolerates. Ours."""
PAPERS_EXAMPLES = {
    "SparTerm": 12_800_000,  # "batch size of 128", importance predictor "for 100k iterations" (section 4.2)
    "SPLADE": 18_600_000,  # "a batch size of 124", "150k iterations" (section 3.1)
    "SpaDE": 1_740_800,  # "batch size to 32", "54,400 iterations on average" (section 4)
    "UHD-BERT": 9_945_694,  # "25% of MS MARCO train triples", of 39,782,779 (appendix A.1)
}
"""Training examples of each paper's models, of the network that sees most."""
MEANINGS = {
    "agrees": "here, the difference is significant in the direction of the claim, or above minus the tolerated loss.",
    "disagrees": "here, the difference is significant in the opposite direction, or below minus the tolerated loss.",
    "inconclusive": (
        "here, neither; the detectable difference is the smallest one that this data finds in 80 % of cases at the "
        "level that is used."
    ),
}
"""What each verdict means, for the reader of a page: the only definition."""
NOTES = (
    (
        f"Here: with these models and this data, not with the paper's. Significant: p < {SIGNIFICANT} by Student's t "
        "over trainings and queries, after Holm's correction over the claims of one paper. The p-values of the tables "
        "of scores are corrected over their rows instead. The 95 % intervals are of single differences."
    ),
    "The direction is judged, not the size: compare the two differences. Costs are shown, not judged.",
)
"""How the verdicts are decided, for the reader of a page."""
_DIGITS = 6


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper: row ``better`` against row ``worse`` in ``quantity``, a measure or one of ``COSTS``.

    ``higher`` and ``less``: ``better`` has more of the quantity, or less. ``not lower``: it has no less. One of the two
    rows may be published: its mean then stands for every query, which makes a test with less power.
    """

    source: str
    """Paper and table, and after a colon the claim in words."""
    better: str
    worse: str
    quantity: str
    kind: Literal["higher", "not lower", "less"] = "higher"
    columns: tuple[str, ...] = ()
    """Columns the claim is about; empty: all."""
    published: tuple[float, float] | None = None
    """The paper's scores of ``better`` and of ``worse``."""
    margin: float = NON_INFERIORITY
    """Loss that ``not lower`` tolerates, in the unit of the measure (0.01: a point of MRR)."""
    unequal: str | None = None
    """Why the two sides are trained on other numbers of examples; the page prints it."""

    def __post_init__(self) -> None:
        if self.margin <= 0 or (self.kind != "not lower" and self.margin != NON_INFERIORITY):
            raise LearnedSparseError(f"margin {self.margin}: the loss, above 0, that kind 'not lower' tolerates")
        if self.published is not None:
            better, worse = self.published
            too_high = not self.relative and max(better, worse) >= 1
            wrong_way = self.kind != "not lower" and (better <= worse) != (self.kind == "less")
            if worse <= 0 or better < 0 or too_high or wrong_way:
                raise LearnedSparseError(
                    f"{self.kind!r}: published {[better, worse]}; give the scores of {self.better!r} and {self.worse!r}"
                    f"{'' if self.relative else ', measures as fractions of 1'}"
                )

    @property
    def relative(self) -> bool:
        """Whether differences are fractions of the value of ``worse``: those of costs."""
        return self.quantity in COSTS

    @property
    def paper(self) -> str:
        """The paper: what is before the first comma or colon of ``source``."""
        return re.split("[,:]", self.source, maxsplit=1)[0]

    @property
    def reference(self) -> float:
        """The difference that ours is tested against."""
        return -self.margin if self.kind == "not lower" else 0.0

    def __str__(self) -> str:
        loss = f" by more than {self.margin:.3g}" if self.kind == "not lower" else ""
        return f"{self.better}: {self.quantity} {self.kind} than {self.worse}{loss}"


@dataclass(frozen=True, kw_only=True)
class Side:
    """Results of one row on one column, as claims compare them."""

    done: bool = True
    scores: Mapping[str, float] = field(default_factory=dict)
    """Mean of each measure; all that a published row has."""
    trainings: Sequence[PerQuery] = ()
    """Scores of each training, or of the only run; empty for a published row."""
    costs: Mapping[str, float | None] = field(default_factory=dict)
    timed_on: str = ""
    """Processors that the costs were measured on."""
    examples: int | None = None
    """Training examples of the row; None if it is not trained here."""


Sides = Callable[[str, str], Side]
"""Results by row and column."""


def judged_claims(claims: Sequence[Claim], columns: Iterable[str], sides: Sides) -> list[dict[str, Any]]:
    """The verdicts on all claims of a leaderboard as JSON values, one for each column that measures the quantity.

    ``verdict`` is one of ``MEANINGS``, or None with a ``reason``: a cost, or a row without results.
    """
    pairs = [
        (claim, column, sides(claim.better, column), sides(claim.worse, column))
        for claim in claims
        for column in claim.columns or columns
    ]
    pairs = [pair for pair in pairs if _measured(pair[0], pair[2:])]
    found = [_estimate(claim, *both) for claim, _, *both in pairs]
    p_of: dict[str, dict[str, float]] = {}
    for number, ((claim, *_), estimate) in enumerate(zip(pairs, found, strict=True)):
        if estimate is not None:
            p_of.setdefault(claim.paper, {})[str(number)] = estimate.p_value(claim.reference)
    corrected = {paper: holm(of_paper) for paper, of_paper in p_of.items()}
    return [
        {
            "claim": str(claim),
            "source": claim.source,
            "paper": claim.paper,
            "column": column,
            "better": claim.better,
            "worse": claim.worse,
            "quantity": claim.quantity,
            "kind": claim.kind,
            "relative": claim.relative,
            "published": claim.published and list(claim.published),
            "unequal": claim.unequal,
            "examples": max(better.examples or 0, worse.examples or 0) or None,
            "paper_examples": PAPERS_EXAMPLES.get(claim.paper),
            **(
                _untested(claim, better, worse)
                if estimate is None
                else _tested(claim, estimate, corrected[claim.paper][str(number)], len(corrected[claim.paper]))
            ),
        }
        for number, ((claim, column, better, worse), estimate) in enumerate(zip(pairs, found, strict=True))
    ]


def _measured(claim: Claim, sides: Iterable[Side]) -> bool:
    """Whether the column of these results measures the quantity of a claim, as far as its rows are done."""
    return claim.relative or not all(side.done and claim.quantity not in side.scores for side in sides)


def _estimate(claim: Claim, better: Side, worse: Side) -> Estimate | None:
    """Our difference in a measure; None for a cost, and if a row has no result."""
    if claim.relative or not (better.done and worse.done):
        return None
    queries = (better.trainings or worse.trainings)[0][claim.quantity]
    both = [
        side.trainings or [{claim.quantity: dict.fromkeys(queries, side.scores[claim.quantity])}]
        for side in (better, worse)
    ]
    return difference(both[0], both[1], claim.quantity)


def _tested(claim: Claim, estimate: Estimate, p: float, family: int) -> dict[str, Any]:
    """Numbers and verdict; ``p`` is corrected for the ``family`` of claims."""
    verdict = "inconclusive"
    if p < SIGNIFICANT:
        gain = (estimate.value - claim.reference) * (-1 if claim.kind == "less" else 1)
        verdict = "agrees" if gain > 0 else "disagrees"
    known = math.isfinite(estimate.error)
    return {
        "difference": round(estimate.value, _DIGITS),
        "interval": [round(end, _DIGITS) for end in estimate.interval] if known else None,
        "detectable": round(estimate.detectable(SIGNIFICANT / family), _DIGITS) if known else None,
        "p": round(p, _DIGITS),
        "verdict": verdict,
        "reason": "" if known else "one query has no interval",
    }


def _untested(claim: Claim, better: Side, worse: Side) -> dict[str, Any]:
    """Our difference in a cost, as a fraction of that of ``worse``, or why there is none."""
    first, second = (side.costs.get(claim.quantity) if claim.relative else None for side in (better, worse))
    machines = sorted({better.timed_on, worse.timed_on} - {""})
    reason, relative = "not measured", None
    if claim.quantity in TIMES and len(machines) > 1:
        reason = f"timed on different machines: {' and '.join(machines)}"
    elif first is not None and second:
        reason, relative = "a cost", round((first - second) / second, _DIGITS)
    unknown = dict.fromkeys(("interval", "detectable", "p", "verdict"))
    return {"difference": relative, **unknown, "reason": reason}
