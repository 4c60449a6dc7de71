"""Differences of systems over trainings and queries: one estimate, its interval and p-value, and Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from eval.measures import PerQuery, Qrels, Run, evaluate

Name = TypeVar("Name")
Values = npt.NDArray[np.float64]
"""Scores ``(trainings, queries)``."""
SIGNIFICANT = 0.05
"""Differences with a smaller p-value are called significant."""
POWER = 0.8
"""Probability with which a test finds a detectable difference."""
STRATUM = "\t"
"""Ends the name of a column at the beginning of the query ids of an average over columns."""
_ROUNDING = 1e-12  # of means of scores; smaller numbers count as 0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean difference, its standard error, and the degrees of freedom of that error."""

    value: float
    error: float
    """Infinite for a single query."""
    freedom: float

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval by Student's t; infinite for a single query."""
        half_width = self._quantile(1 - SIGNIFICANT / 2) * self.error
        return self.value - half_width, self.value + half_width

    def detectable(self, level: float = SIGNIFICANT) -> float:
        """Smallest true difference that a two-sided test at ``level`` finds with a probability of ``POWER``."""
        return (self._quantile(1 - level / 2) + self._quantile(POWER)) * self.error

    def p_value(self, reference: float = 0.0) -> float:
        """Two-sided p-value of the difference from ``reference`` by Student's t; 1 if the two are equal.

        If all queries have the same difference, it is that of the sign test, ``2 / 2^queries``.
        """
        distance = abs(self.value - reference)
        if distance < _ROUNDING or math.isinf(self.error):
            return 1.0
        if self.error < _ROUNDING:
            return math.pow(2.0, -self.freedom)
        from scipy import stats

        return float(2 * stats.t.sf(distance / self.error, self.freedom))

    def _quantile(self, probability: float) -> float:
        from scipy import stats

        return float(stats.t.ppf(probability, self.freedom))


def estimate_difference(better: Values, worse: Values, strata: Sequence[object] | None = None) -> Estimate:
    """The mean of ``better`` minus that of ``worse``, with its standard error over queries and trainings.

    Both have the same queries in the same order. The variance of the mean is that of queries plus that of trainings,
    minus the variance of their interaction, which both contain (Owen 2007), and not less than either. A system with one
    training counts as if it had no variance between trainings; with one training of each system, this is the paired
    t-test. The degrees of freedom are Satterthwaite's. ``strata``: the collection of each query of an average over
    collections; queries vary within their collection only.

    >>> estimate_difference(np.array([[0.5, 0.75, 1.0]]), np.array([[0.5, 0.5, 0.5]])).value
    0.25
    """
    queries = better.shape[1]
    value = float(better.mean() - worse.mean())
    labels = np.unique(np.array(strata or [0] * queries, dtype=str), return_inverse=True)[1]
    groups = [labels == label for label in range(labels.max() + 1)]
    if min(group.sum() for group in groups) < 2:
        return Estimate(value=value, error=math.inf, freedom=math.inf)
    apart = better.mean(axis=0) - worse.mean(axis=0)
    parts = [(_of_mean(float(apart[group].var(ddof=1)), group), int(group.sum()) - 1) for group in groups]
    of_queries, of_trainings, of_both = sum(part for part, _ in parts), 0.0, 0.0
    for values in (better, worse):
        if (trainings := len(values)) > 1:
            parts.append((float(values.mean(axis=1).var(ddof=1)) / trainings, trainings - 1))
            of_trainings += parts[-1][0]
            of_both += sum(_of_mean(_residual(values[:, group]) / trainings, group) for group in groups)
    variance = max(of_queries + of_trainings - of_both, of_queries, of_trainings)
    squares = sum(part**2 / freedom for part, freedom in parts)
    freedom = variance**2 / squares if squares else queries - 1.0
    return Estimate(value=value, error=math.sqrt(variance), freedom=freedom)


def _of_mean(variance: float, group: npt.NDArray[np.bool_]) -> float:
    """Variance of the mean over all queries that comes from a group whose values have this variance."""
    return float(variance * group.sum() / len(group) ** 2)


def _residual(values: Values) -> float:
    """Mean square of what trainings and queries do not explain each on its own."""
    apart = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    return float((apart**2).sum() / ((values.shape[0] - 1) * (values.shape[1] - 1)))


def difference(better: Sequence[PerQuery], worse: Sequence[PerQuery], measure: str) -> Estimate:
    """The estimate for two systems in one measure, each given as the scores of its trainings.

    With cross-fitting, each training has other queries: see ``estimate_over_folds``.
    """
    if better[0][measure].keys() != better[-1][measure].keys():
        pairs = zip(better, worse, strict=True)
        return estimate_over_folds([[a[measure][query] - b[measure][query] for query in a[measure]] for a, b in pairs])
    queries = sorted(better[0][measure])
    strata = [query.rpartition(STRATUM)[0] for query in queries]
    a, b = (np.array([[one[measure][query] for query in queries] for one in of]) for of in (better, worse))
    return estimate_difference(a, b, strata)


def estimate_over_folds(folds: Sequence[Sequence[float]]) -> Estimate:
    """The mean of the folds' means of ``folds``, the differences of their queries; each fold has a training of its own.

    The variance between folds is that of queries and of trainings together; it counts as not less than that of queries.
    Trainings share three of four fifths of their data, so that it is somewhat too small (Dietterich 1998).
    """
    if min(map(len, folds)) < 2:
        return Estimate(value=float(np.mean([*map(np.mean, folds)])), error=math.inf, freedom=math.inf)
    means = np.array([np.mean(fold) for fold in folds])
    of_queries = np.mean([np.var(fold, ddof=1) / len(fold) for fold in folds])
    variance = max(float(means.var(ddof=1)), float(of_queries)) / len(folds)
    return Estimate(value=float(means.mean()), error=math.sqrt(variance), freedom=len(folds) - 1)


def average_of_trainings(columns: Mapping[str, Sequence[PerQuery]], weights: Mapping[str, float]) -> list[PerQuery]:
    """Scores of the weighted mean of one row over columns, for as many trainings as all columns have.

    Values of queries are weighted so that their mean is that of the columns' means, whatever their numbers of queries.
    Their ids begin with the column and ``STRATUM``.
    """
    first, *others = (trainings[0] for trainings in columns.values())
    names = [name for name in first if all(name in other for other in others)]
    sizes = {name: {at: len(trainings[0][name]) for at, trainings in columns.items()} for name in names}
    return [
        {
            name: {
                f"{at}{STRATUM}{query}": value * weights[at] * sum(sizes[name].values()) / sizes[name][at]
                for at, trainings in columns.items()
                for query, value in trainings[number][name].items()
            }
            for name in names
        }
        for number in range(min(map(len, columns.values())))
    ]


@dataclass(frozen=True)
class Comparison:
    """Two runs, or two systems with several trainings, compared in one measure."""

    mean_a: float
    mean_b: float
    difference: float
    """Mean of ``b`` minus ``a``."""
    p_value: float
    """Two-sided; of ``comparisons``, corrected for the number of systems."""
    confidence_interval: tuple[float, float]
    """95 % interval of the difference; infinite for a single query."""
    wins: tuple[int, int]
    """Queries of which ``b`` has the higher score, and all queries."""


def compare(
    run_a: Run | str | Path, run_b: Run | str | Path, qrels: Qrels | str | Path, measure: str, *,
    remove_query: bool = False,
) -> Comparison:  # fmt: skip
    """Compare two runs in one measure over all judged queries.

    >>> qrels = {f"q{i}": {"d": 1} for i in range(8)}
    >>> good = {query: [("d", 1.0)] for query in qrels}
    >>> compare({}, good, qrels, "P@1")
    Comparison(mean_a=0.0, mean_b=1.0, difference=1.0, p_value=0.0078125, confidence_interval=(1.0, 1.0), wins=(8, 8))
    """
    a, b = (evaluate(run, qrels, [measure], remove_query=remove_query).per_query for run in (run_a, run_b))
    return comparisons({"a": [a], "b": [b]}, "a")["b"][measure]


def comparisons(systems: Mapping[str, Sequence[PerQuery]], baseline: str) -> dict[str, dict[str, Comparison]]:
    """``{system: {measure: comparison with the baseline}}`` of all other systems; ``a`` is the baseline.

    A system is the scores of each of its trainings; all have the same measures and queries. For each measure, ``holm``
    corrects the p-values for the number of systems compared.

    >>> runs = {name: {"P@1": {str(i): value for i in range(8)}} for name, value in {"bm25": 0.25, "tiny": 0.5}.items()}
    >>> comparison = comparisons({name: [run] for name, run in runs.items()}, "bm25")["tiny"]["P@1"]
    >>> format_comparison("tiny", "bm25", "P@1", comparison)
    'tiny - bm25: P@1 +0.250 (+0.250 to +0.250), p 0.0078, 8 of 8 queries higher'
    """
    others = [name for name in systems if name != baseline]
    compared: dict[str, dict[str, Comparison]] = {name: {} for name in others}
    for measure in systems[baseline][0]:
        found = {name: difference(systems[name], systems[baseline], measure) for name in others}
        corrected = holm({name: estimate.p_value() for name, estimate in found.items()})
        worse = _of_queries(systems[baseline], measure)
        for name, one in found.items():
            better = _of_queries(systems[name], measure)
            wins = sum(better[query] > worse[query] for query in worse), len(worse)
            mean = float(np.mean([np.mean([*each[measure].values()]) for each in systems[baseline]]))
            compared[name][measure] = Comparison(mean, mean + one.value, one.value, corrected[name], one.interval, wins)
    return compared


def _of_queries(trainings: Sequence[PerQuery], measure: str) -> dict[str, float]:
    """The mean of each query over the trainings that measure it."""
    values: dict[str, list[float]] = {}
    for each in trainings:
        for query, value in each[measure].items():
            values.setdefault(query, []).append(value)
    return {query: sum(of) / len(of) for query, of in values.items()}


def format_comparison(name: str, baseline: str, measure: str, comparison: Comparison) -> str:
    """One line: ``tiny - bm25: nDCG@10 +0.019 (-0.005 to +0.043), p 0.12, 22 of 43 queries higher``."""
    low, high = comparison.confidence_interval
    p = f"{comparison.p_value:.2g}" if comparison.p_value >= 0.001 else "< 0.001"
    difference = f"{measure} {comparison.difference:+.3f} ({low:+.3f} to {high:+.3f}), p {p}"
    return f"{name} - {baseline}: {difference}, {comparison.wins[0]} of {comparison.wins[1]} queries higher"


def holm(p_of: Mapping[Name, float]) -> dict[Name, float]:
    """Correct the p-values of several comparisons by the step-down method of Holm (1979).

    The smallest p-value is multiplied by the number of comparisons, the next by one less, and so on. A corrected
    p-value is never smaller than that of a smaller p-value, and at most 1.

    >>> holm({"a": 0.04, "b": 0.25, "c": 0.01})
    {'a': 0.08, 'b': 0.25, 'c': 0.03}
    """
    corrected: dict[Name, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_of, key=p_of.__getitem__)):
        largest = max(largest, min(1.0, (len(p_of) - rank) * p_of[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_of}
