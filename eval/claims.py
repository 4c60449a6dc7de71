"""What a paper's table claims, held against our own numbers: which way a difference goes, and whether it is chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

SIGNIFICANT = 0.05
_RESAMPLINGS = 20_000


@dataclass(frozen=True, kw_only=True)
class Claim:
    """``better`` against ``worse`` (names of rows) in ``quantity``.

    ``higher``: ``better`` has more of a measure, query by query. ``not lower``: it has no less of it. ``less``:
    ``better`` has less of a cost, which is one number a row, such as FLOPS.
    """

    source: str
    """Paper and table."""
    better: str
    worse: str
    quantity: str
    kind: Literal["higher", "not lower", "less"] = "higher"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What our numbers say of a claim."""

    difference: float
    """``better`` minus ``worse``."""
    p: float | None
    """Chance of a difference this large between equals, two-sided; None for costs."""
    holds: Literal["holds", "does not hold", "not significant"]


def judge(claim: Claim, better: Mapping[str, float], worse: Mapping[str, float]) -> Verdict:
    """The verdict on a claim about a measure, from the scores of each query.

    >>> claim = Claim(source="", better="a", worse="b", quantity="MRR@10")
    >>> judge(claim, {"1": 1.0, "2": 0.5}, {"1": 1.0, "2": 0.25}).holds
    'not significant'
    """
    differences = np.array([better[query] - worse[query] for query in sorted(better)])
    mean, p = float(differences.mean()), randomization_test(differences)
    if claim.kind == "not lower":
        return Verdict(difference=mean, p=p, holds="does not hold" if mean < 0 and p < SIGNIFICANT else "holds")
    if p >= SIGNIFICANT:
        return Verdict(difference=mean, p=p, holds="not significant")
    return Verdict(difference=mean, p=p, holds="holds" if mean > 0 else "does not hold")


def judge_cost(better: float, worse: float) -> Verdict:
    """The verdict on a claim that something costs less."""
    return Verdict(difference=better - worse, p=None, holds="holds" if better < worse else "does not hold")


def randomization_test(differences: np.ndarray, seed: int = 0) -> float:
    """Fisher's paired randomisation test, two-sided: how often random signs give a mean as far from 0 or farther.

    Exact for up to 14 pairs that differ, with 20,000 seeded resamplings beyond.

    >>> randomization_test(np.array([1.0, 1.0, 1.0]))
    0.25
    """
    some = differences[differences != 0]
    if len(some) == 0:
        return 1.0
    observed = abs(some.sum()) - 1e-12
    if len(some) <= 14:
        signs = 1 - 2 * ((np.arange(2 ** len(some))[:, None] >> np.arange(len(some))) & 1)
        return float((np.abs(signs @ some) >= observed).mean())
    rng, extreme = np.random.default_rng(seed), 0
    for _ in range(_RESAMPLINGS // 1000):
        signs = rng.integers(0, 2, size=(1000, len(some))) * 2 - 1
        extreme += int((np.abs(signs @ some) >= observed).sum())
    return (extreme + 1) / (_RESAMPLINGS + 1)
