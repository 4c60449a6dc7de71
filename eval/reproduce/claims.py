"""Claims of papers, and their verdicts: a difference beyond a margin, tested over queries."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from eval.measures import SIGNIFICANT, Differences, Test, differences, holm, p_value
from learned_sparse.core import LearnedSparseError

COSTS = (
    "FLOPS", "terms/document", "terms/query", "index bytes", "ms/query", "mean ms/query", "p99 ms/query",
    "mean ms/query with encoding", "documents/s",
)  # fmt: skip
"""Costs that a claim can compare, besides measures: one number per row instead of one per query.

Index and times are of Lucene, or of the exact searcher in rows with ``backend: exact``.
"""
NON_INFERIORITY = 0.01
"""Loss in a measure that "no worse" tolerates: ours."""

Holds = Literal["holds", "not reproduced at this scale", "not significant"]
NOT_REPRODUCED: Holds = "not reproduced at this scale"
_RESAMPLES, _BATCH = 10_000, 250


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper: row ``better`` against row ``worse`` in ``quantity``, a measure or one of ``COSTS``.

    ``higher`` and ``less``: ``better`` has more of the quantity, or less. ``not lower``: it has no less. "Less cost at
    equal quality" is two claims: ``less`` of the cost and ``not lower`` in the measure. One of the two rows may be
    published: its mean then stands for every query, which makes a test with less power.
    """

    source: str
    """Paper and table, and after a colon the claim in words."""
    better: str
    worse: str
    quantity: str
    kind: Literal["higher", "not lower", "less"] = "higher"
    columns: tuple[str, ...] = ()
    """Columns the claim is about; empty: all."""
    published: float | None = None
    """The paper's difference of ``higher`` and ``less``: in the unit of a measure (0.01: a point of MRR), and of a cost
    as a fraction of that of ``worse`` (0.5: it is halved)."""
    margin: float | None = None
    """Least difference for ``higher`` and ``less``; greatest tolerated loss for ``not lower``; units as ``published``.

    None: half the paper's difference, or ``NON_INFERIORITY`` for ``not lower``. These choices are ours.
    """

    def __post_init__(self) -> None:
        if self.kind == "not lower" and self.published is not None:
            raise LearnedSparseError("'not lower' tolerates a margin; leave 'published' out")
        if self.kind != "not lower" and self.published is self.margin is None:
            raise LearnedSparseError(f"{self.kind!r} needs the paper's difference, published: X, or margin: X")
        if min(self.published or 0.0, self.least) < 0 or (self.kind == "not lower" and not self.least):
            raise LearnedSparseError(
                f"{self.kind!r}: published {self.published}, margin {self.margin}; give more than 0"
            )

    @property
    def least(self) -> float:
        """The margin in effect."""
        if self.margin is not None:
            return self.margin
        return NON_INFERIORITY if self.kind == "not lower" else (self.published or 0.0) / 2


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A claim compared with our numbers."""

    difference: float
    """``better`` minus ``worse``."""
    p: float | None
    """Two-sided p-value of the mean difference from the margin; None for costs."""
    holds: Holds


def claim_text(claim: Claim) -> str:
    """The claim in words.

    >>> claim_text(Claim(source="", better="a", worse="b", quantity="FLOPS", kind="less", published=0.5))
    'a: FLOPS less than b by more than 25 %'
    """
    margin = f"{100 * claim.least:g} %" if claim.quantity in COSTS else f"{claim.least:g}"
    text = f"{claim.better}: {claim.quantity} {claim.kind} than {claim.worse}"
    return f"{text} by more than {margin}" if claim.least else text


def judge(
    claim: Claim,
    better: Mapping[str, float],
    worse: Mapping[str, float],
    test: Test = "randomization",
    seeds: tuple[Sequence[Mapping[str, float]], Sequence[Mapping[str, float]]] | None = None,
) -> Verdict:
    """The verdict on a claim about a measure, from the scores of each query; p is not corrected yet.

    The margin is subtracted before the test, so that ``not lower`` is a test of non-inferiority. ``seeds``: the scores
    of each training of both rows, whose means are ``better`` and ``worse``; p then resamples trainings and queries.

    >>> claim = Claim(source="", better="a", worse="b", quantity="MRR@10", margin=0.1)
    >>> judge(claim, {"1": 1.0, "2": 0.5}, {"1": 1.0, "2": 0.25}).holds
    'not significant'
    """
    values = differences(better, worse)
    beyond = _beyond_margin(claim, values)
    holds: Holds = "holds" if float(beyond.mean()) > 0 else NOT_REPRODUCED
    p = p_value(beyond, test) if seeds is None else _resampled_p(claim, *map(_by_seed, seeds))
    return _significant(Verdict(difference=float(values.mean()), p=p, holds=holds))


def _by_seed(scores: Sequence[Mapping[str, float]]) -> npt.NDArray[np.float64]:
    """Scores as ``(trainings, queries)``, in the order of the query ids."""
    return np.array([[of_seed[query] for query in sorted(of_seed)] for of_seed in scores])


def _resampled_p(claim: Claim, better: npt.NDArray[np.float64], worse: npt.NDArray[np.float64]) -> float:
    """Two-sided bootstrap p-value: queries are drawn with replacement, and so are the trainings of each row."""
    rng, queries = np.random.default_rng(0), better.shape[1]
    draws = []
    for _ in range(_RESAMPLES // _BATCH):
        weights = rng.multinomial(queries, np.full(queries, 1 / queries), size=_BATCH).T / queries
        means = []
        for values in (better, worse):
            drawn = rng.integers(0, len(values), size=(len(values), _BATCH))
            means.append(np.take_along_axis(values @ weights, drawn, axis=0).mean(axis=0))
        draws.append(_beyond_margin(claim, means[0] - means[1]))
    beyond = np.concatenate(draws)
    return min(1.0, max(1.0, 2 * float(min((beyond <= 0).sum(), (beyond >= 0).sum()))) / len(beyond))


def judge_cost(claim: Claim, better: float, worse: float) -> Verdict:
    """The verdict on a claim about a cost, one number for each row."""
    limit = worse * (1 + claim.least if claim.kind == "higher" else 1 - claim.least)
    holds = {"higher": better > limit, "not lower": better >= limit, "less": better < limit}[claim.kind]
    return Verdict(difference=better - worse, p=None, holds="holds" if holds else NOT_REPRODUCED)


def _significant(verdict: Verdict) -> Verdict:
    """``verdict``, which a p-value that is not small makes "not significant"."""
    large = verdict.p is not None and verdict.p >= SIGNIFICANT
    return dataclasses.replace(verdict, holds="not significant") if large else verdict


def _beyond_margin(claim: Claim, values: Differences) -> Differences:
    """Differences from the margin, positive in the claimed direction."""
    if claim.kind == "less":
        return -values - claim.least
    return values + claim.least if claim.kind == "not lower" else values - claim.least


def correct(judged: Sequence[tuple[Claim, str, Verdict | None]]) -> list[Verdict | None]:
    """Correct the p-values of claims by Holm's method, for those of one table in one quantity on one column.

    A table of a paper is a family of tests; SpaDE (Table 2) corrects so for its baselines, by Bonferroni's method.
    """
    families: dict[tuple[str, str, str], dict[str, float]] = {}
    for number, (claim, column, verdict) in enumerate(judged):
        if verdict is not None and verdict.p is not None:
            family = (claim.source.partition(":")[0], claim.quantity, column)
            families.setdefault(family, {})[str(number)] = verdict.p
    corrected = {number: p for family in families.values() for number, p in holm(family).items()}
    return [
        verdict and _significant(dataclasses.replace(verdict, p=corrected.get(str(number))))
        for number, (_, _, verdict) in enumerate(judged)
    ]
