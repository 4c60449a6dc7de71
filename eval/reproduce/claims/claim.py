"""A claim of a paper, and the difference that a reproduction has to reach."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

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
"""Loss that "not lower" tolerates: of a measure in its unit, of a cost as a fraction. Ours."""
AT_EQUAL = "less at equal"
"""The kind of claims that compare curves."""
ASKED_SHARE = 0.5
"""Share of the paper's effect that a reproduction has to reach. Ours."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper: row ``better`` against row ``worse`` in ``quantity``, a measure or one of ``COSTS``.

    ``higher`` and ``less``: ``better`` has more of the quantity, or less. ``not lower``: it has no less. One of the two
    rows may be published: its mean then stands for every query, which makes a test with less power. ``less at equal``:
    of two curves, rows that share a ``curve``, ``better`` has less of a cost where both reach the same ``quality``.
    """

    source: str
    """Paper and table, and after a colon the claim in words."""
    better: str
    worse: str
    quantity: str
    kind: Literal["higher", "not lower", "less", "less at equal"] = "higher"
    quality: str | None = None
    """Measure in which two curves are equal; exactly with ``less at equal``."""
    columns: tuple[str, ...] = ()
    """Columns the claim is about; empty: all."""
    published: tuple[float, float] | None = None
    """The paper's scores of ``better`` and of ``worse``; ``not lower`` can do without."""
    margin: float | None = None
    """Difference asked for by ``higher`` and ``less``, loss tolerated by ``not lower``: in the unit of a measure (0.01:
    a point of MRR), of a cost as a fraction of that of ``worse`` (0.5: half).

    None: half of the paper's effect (see ``asked``), or ``NON_INFERIORITY`` for ``not lower``.
    """

    unequal: str | None = None
    """Why the trainings of the two sides differ in examples, updates or dev trials; the page prints it."""

    def __post_init__(self) -> None:
        if (self.kind == AT_EQUAL) != (self.quality is not None):
            raise LearnedSparseError(f"kind: {AT_EQUAL} and quality: MEASURE belong together")
        if self.kind == AT_EQUAL and self.quantity not in COSTS:
            raise LearnedSparseError(
                f"kind: {AT_EQUAL}: {self.quantity!r} is not a cost; give one of {', '.join(COSTS)}"
            )
        if self.kind != "not lower" and self.published is None and self.margin is None:
            raise LearnedSparseError(
                f"{self.kind!r} needs the paper's scores, published: [BETTER, WORSE], or margin: X"
            )
        if (self.margin or 0.0) < 0 or (self.kind == "not lower" and self.margin == 0):
            raise LearnedSparseError(f"{self.kind!r}: margin {self.margin}; give more than 0")
        if self.published is not None:
            better, worse = self.published
            too_high = not self.relative and max(better, worse) >= 1
            wrong_way = self.kind != "not lower" and self.gain(better - worse) <= 0
            if worse <= 0 or better < 0 or too_high or wrong_way:
                raise LearnedSparseError(
                    f"{self.kind!r}: published {[better, worse]}; give the scores of {self.better!r} and {self.worse!r}"
                    f"{'' if self.relative else ', measures as fractions of 1'}"
                )

    @property
    def relative(self) -> bool:
        """Whether differences are fractions of the value of ``worse``: those of costs."""
        return self.quantity in COSTS

    def asked(self, worse: float) -> float:
        """Difference asked for, or loss tolerated, where our ``worse`` has this value; 0 or more.

        For a cost, half of the fraction that the paper saves. For a measure, half of the paper's effect on the odds,
        score / (1 - score): our odds have to grow by the square root of the ratio of the paper's odds. For low scores
        that is about half of the paper's relative difference; it never asks for a score above 1.

        >>> claim = Claim(source="", better="SPLADE", worse="BM25", quantity="MRR@10", published=(0.322, 0.184))
        >>> round(claim.asked(0.01), 4), round(claim.asked(0.184), 4), round(claim.asked(0.865), 4)
        (0.0044, 0.0626, 0.0379)
        """
        if self.margin is not None:
            return self.margin
        if self.kind == "not lower":
            return NON_INFERIORITY
        better_published, worse_published = self.published or (worse, worse)
        if self.relative:
            return ASKED_SHARE * abs(better_published - worse_published) / worse_published
        odds_ratio = better_published * (1 - worse_published) / (worse_published * (1 - better_published))
        growth = math.pow(odds_ratio, ASKED_SHARE) - 1
        return abs(worse * (1 - worse) * growth / (1 + worse * growth))

    def gain(self, difference: float) -> float:
        """``difference``, positive in the claimed direction."""
        return -difference if self.kind in {"less", AT_EQUAL} else difference


def claim_text(claim: Claim) -> str:
    """The claim in words.

    >>> claim_text(Claim(source="", better="a", worse="b", quantity="FLOPS", kind="less", margin=0.5))
    'a: FLOPS less than b by 50 % or more'
    """
    kind = f"{claim.kind} {claim.quality}" if claim.quality else claim.kind
    text = f"{claim.better}: {claim.quantity} {kind} than {claim.worse}"
    if claim.kind == "not lower":
        return f"{text} by more than {amount(claim, claim.asked(0.0))}"
    return text if not claim.margin else f"{text} by {amount(claim, claim.margin)} or more"


def amount(claim: Claim, value: float) -> str:
    """A difference, or a fraction of a cost in percent."""
    return f"{100 * value:.3g} %" if claim.relative else f"{value:.3g}"
