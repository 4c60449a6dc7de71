"""Claims of papers and their verdicts.

Read in this order: ``claim`` (what a paper says), ``findings`` and ``curves`` (our numbers), ``verdicts``.
"""

from __future__ import annotations

from eval.reproduce.claims.claim import COSTS, NON_INFERIORITY, Claim, claim_text
from eval.reproduce.claims.curves import MIN_POINTS, find_at_equal_quality, log_cost_ratio
from eval.reproduce.claims.findings import Finding, Side, find_cost, find_measure
from eval.reproduce.claims.verdicts import MEANINGS, NOTES, Verdict, judge, judged_claims

__all__ = [
    "COSTS",
    "MEANINGS",
    "MIN_POINTS",
    "NON_INFERIORITY",
    "NOTES",
    "Claim",
    "Finding",
    "Side",
    "Verdict",
    "claim_text",
    "find_at_equal_quality",
    "find_cost",
    "find_measure",
    "judge",
    "judged_claims",
    "log_cost_ratio",
]
