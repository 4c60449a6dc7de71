"""What a verdict means, and the verdicts on all claims of a leaderboard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eval.measures import SIGNIFICANT, holm
from eval.reproduce.claims.claim import COSTS, TIMES, Claim, amount, claim_text
from eval.reproduce.claims.curves import find_at_equal_quality
from eval.reproduce.claims.findings import Finding, Side, find_cost, find_measure

SAME_COST = 0.05
"""Fraction by which two costs, which have no interval, may differ before one counts as larger. Ours."""

Word = Literal[
    "reproduced", "direction only", "not reproduced at this scale", "contradicted", "cannot be judged here",
    "not measured",
]  # fmt: skip
MEANINGS: dict[Word, str] = {
    "reproduced": (
        "The difference is significant and at least half of the paper's effect. The effect on a cost is the fraction "
        "saved. The effect on a measure is the ratio of the odds, score / (1 - score), of the paper's two scores; half "
        "of it is the square root of that ratio. Where the claim is that nothing is lost, the difference is "
        "significantly above minus the tolerated loss."
    ),
    "direction only": "The difference is significant, but smaller than half of the paper's effect.",
    "not reproduced at this scale": (
        "The difference is not significant, although this data finds a difference of the size asked for in at least "
        "80 % of cases."
    ),
    "contradicted": (
        "The difference is significant in the opposite direction, or significantly below minus the tolerated loss: "
        "with these models and data, not with the paper's."
    ),
    "cannot be judged here": (
        "The difference is not significant, and the smallest one that this data finds in 80 % of cases is larger than "
        "the difference asked for: there are too few queries or trainings to say anything."
    ),
    "not measured": "A row of the claim has no result.",
}
"""What each verdict means, for the reader of a page: the only definition.

Our choices: the odds, half of the effect, the level of 5 %, the power of 80 %, and the tolerated loss.
"""
NOTES = (
    (
        f"Significant: p < {SIGNIFICANT} after Holm's correction over all claims of this leaderboard. The intervals "
        "printed are 95 % intervals of single differences, without correction: one may be above 0 where the difference "
        "is not significant."
    ),
    "Intervals and p-values are of a hierarchical bootstrap over trainings and queries, with Student's t.",
    (
        "Costs at equal quality are those of two lines through rows with different settings, compared over the range "
        "of quality that both lines reach; queries are resampled, costs are not."
    ),
    f"A cost is one number without interval: two costs are different if they differ by more than {SAME_COST:.0%}.",
)
"""How the words of ``MEANINGS`` are decided, for the reader of a page."""
_DIGITS = 6

Sides = Callable[[str, str], Side]
"""Results by row and column."""
Curves = Mapping[str, Sequence[str]]
"""Rows of each curve."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The verdict on a claim, and in words what decided it."""

    word: Word
    reason: str
    p: float | None = None
    """Two-sided p-value after Holm's correction, of the difference from 0 or from minus the tolerated loss."""


def judged_claims(
    claims: Sequence[Claim], columns: Iterable[str], sides: Sides, curves: Curves
) -> list[dict[str, Any]]:
    """The verdicts on all claims of a leaderboard as JSON values, one for each column that measures the quantity."""
    pairs = [
        (claim, column)
        for claim in claims
        for column in claim.columns or columns
        if _measured(claim, [sides(row, column) for row in _rows(claim, curves)])
    ]
    found = [(claim, _find(claim, column, sides, curves)) for claim, column in pairs]
    return [
        {
            "claim": claim_text(claim),
            "source": claim.source,
            "column": column,
            "better": claim.better,
            "worse": claim.worse,
            "quantity": claim.quantity,
            "relative": claim.relative,
            "published": claim.published and list(claim.published),
            **_numbers(finding),
            "p": _rounded(verdict.p),
            "verdict": verdict.word,
            "reason": verdict.reason,
            "unequal": claim.unequal,
        }
        for (claim, column), (_, finding), verdict in zip(pairs, found, judge(found), strict=True)
    ]


def _rows(claim: Claim, curves: Curves) -> list[str]:
    """The rows of both sides of a claim."""
    both = (claim.better, claim.worse)
    return [row for side in both for row in curves[side]] if claim.quality else list(both)


def _measured(claim: Claim, sides: Sequence[Side]) -> bool:
    """Whether the column of these results measures the quantity of a claim, as far as its rows are done."""
    measured = claim.quality or claim.quantity
    return measured in {*COSTS, *sides[0].scores} or not all(side.done for side in sides)


def _find(claim: Claim, column: str, sides: Sides, curves: Curves) -> Finding | None:
    """Our numbers for a claim on a column; None if one is missing."""
    machines = sorted({sides(row, column).timed_on for row in _rows(claim, curves)} - {""})
    if claim.quantity in TIMES and len(machines) > 1:
        return Finding(
            difference=None, asked=claim.asked(0.0), problem=f"timed on different machines: {' and '.join(machines)}"
        )
    if claim.quality is not None:
        first, second = ([sides(row, column) for row in curves[name]] for name in (claim.better, claim.worse))
        return find_at_equal_quality(claim, first, second)
    better, worse = sides(claim.better, column), sides(claim.worse, column)
    if not better.done or not worse.done:
        return None
    if claim.quantity not in COSTS:
        queries = sorted((better.trainings or worse.trainings)[0][claim.quantity])
        return find_measure(claim, *(side.values(claim.quantity, queries) for side in (better, worse)))
    cost, other = (side.costs.get(claim.quantity) for side in (better, worse))
    return None if cost is None or other is None else find_cost(claim, cost, other)


def _numbers(finding: Finding | None) -> dict[str, Any]:
    if finding is None:
        return dict.fromkeys(("asked", "difference", "interval", "detectable"))
    return {
        "asked": _rounded(finding.asked),
        "difference": _rounded(finding.difference),
        "interval": finding.interval and [_rounded(end) for end in finding.interval],
        "detectable": _rounded(finding.detectable),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def judge(found: Sequence[tuple[Claim, Finding | None]]) -> list[Verdict]:
    """The verdicts on all claims of a leaderboard, one family of Holm's correction."""
    raw = {
        str(number): finding.estimate.p_value(-finding.asked if claim.kind == "not lower" else 0.0)
        for number, (claim, finding) in enumerate(found)
        if finding is not None and finding.estimate is not None
    }
    corrected = holm(raw)
    return [
        Verdict(word="not measured", reason="")
        if finding is None
        else _judge(claim, finding, corrected.get(str(number)))
        for number, (claim, finding) in enumerate(found)
    ]


def _judge(claim: Claim, finding: Finding, p: float | None) -> Verdict:
    if finding.difference is None or finding.problem:
        return Verdict(word="cannot be judged here", reason=finding.problem)
    gain = claim.gain(finding.difference)
    word, reason = _judge_cost(claim, finding, gain) if p is None else _judge_tested(claim, finding, gain, p)
    return Verdict(word=word, reason=reason, p=p)


def _judge_tested(claim: Claim, finding: Finding, gain: float, p: float) -> tuple[Word, str]:
    """The verdict on a difference with a p-value, and its reason."""
    asked = finding.asked
    no_loss = claim.kind == "not lower"
    enough = no_loss or gain >= asked
    if p < SIGNIFICANT and gain + (asked if no_loss else 0.0) < 0:
        return "contradicted", ""
    if p < SIGNIFICANT and enough:
        return "reproduced", ""
    asked_text = f"the {amount(claim, asked)} asked for"
    if p < SIGNIFICANT:
        return "direction only", f"smaller than {asked_text}"
    if finding.detectable is None:
        return "cannot be judged here", "one query has no interval"
    if finding.detectable > asked:
        text = f"detectable {amount(claim, finding.detectable)}, asked for {amount(claim, asked)}"
        return "cannot be judged here", text
    if no_loss:
        return "not reproduced at this scale", f"a loss of {amount(claim, asked)} is not ruled out"
    size = f"at least {asked_text}, but" if enough else f"smaller than {asked_text}, and"
    return "not reproduced at this scale", f"{size} not significant"


def _judge_cost(claim: Claim, finding: Finding, gain: float) -> tuple[Word, str]:
    """The verdict on a difference of costs, and its reason."""
    asked = finding.asked
    if claim.kind == "not lower":
        return ("reproduced", "") if gain >= -asked else ("contradicted", "")
    if gain >= asked:
        return "reproduced", ""
    if gain < -SAME_COST:
        return "contradicted", ""
    reason = f"smaller than the {amount(claim, asked)} asked for"
    return ("direction only" if gain > SAME_COST else "not reproduced at this scale"), reason
