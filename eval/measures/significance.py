"""Differences between runs: means, confidence intervals, p-values, and their correction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from eval.measures.bootstrap import Values, estimate_difference
from eval.measures.scores import PerQuery, Qrels, Run, evaluate

Differences = npt.NDArray[np.float64]
"""One paired difference per query."""
Test = Literal["randomization", "t-test"]

SIGNIFICANT = 0.05
"""Differences with a smaller p-value are called significant."""
_EXACT_PAIRS = 14  # up to 2^14 combinations of signs are tried exactly
_RESAMPLES, _BATCH = 20_000, 500


@dataclass(frozen=True)
class Comparison:
    """Two runs compared in one measure, query by query."""

    mean_a: float
    mean_b: float
    difference: float
    """Mean of ``b`` minus ``a``."""
    p_value: float
    """Two-sided; of ``comparisons``, corrected for the number of runs."""
    confidence_interval: tuple[float, float]
    """95 % interval of the difference by Student's t; infinite for a single query."""


def compare(
    run_a: Run | str | Path,
    run_b: Run | str | Path,
    qrels: Qrels | str | Path,
    measure: str,
    *,
    test: Test = "randomization",
    remove_query: bool = False,
) -> Comparison:
    """Compare two runs in one measure over all judged queries.

    >>> qrels = {f"q{i}": {"d": 1} for i in range(8)}
    >>> good = {query: [("d", 1.0)] for query in qrels}
    >>> compare({}, good, qrels, "P@1")
    Comparison(mean_a=0.0, mean_b=1.0, difference=1.0, p_value=0.0078125, confidence_interval=(1.0, 1.0))
    """
    a, b = (evaluate(run, qrels, [measure], remove_query=remove_query) for run in (run_a, run_b))
    values = differences(b.per_query[measure], a.per_query[measure])
    return Comparison(
        mean_a=a.mean[measure],
        mean_b=b.mean[measure],
        difference=float(values.mean()),
        p_value=p_value(values, test),
        confidence_interval=confidence_interval(values),
    )


def comparisons(runs: Mapping[str, PerQuery], baseline: str) -> dict[str, dict[str, Comparison]]:
    """``{run: {measure: comparison with the baseline}}`` of all other runs; ``a`` is the baseline.

    All runs have the same measures and queries. The p-values are those of ``p_values``.

    >>> runs = {name: {"P@1": {str(i): value for i in range(8)}} for name, value in {"bm25": 0.25, "tiny": 0.5}.items()}
    >>> comparison = comparisons(runs, "bm25")["tiny"]["P@1"]
    >>> format_comparison("tiny", "bm25", "P@1", comparison)
    'tiny - bm25: P@1 +0.250 (+0.250 to +0.250), p 0.0078'
    """
    p_of = p_values({name: [run] for name, run in runs.items()}, baseline)
    compared: dict[str, dict[str, Comparison]] = {name: {} for name in p_of}
    for name, of_measure in p_of.items():
        for measure, p in of_measure.items():
            reference, values = runs[baseline][measure], runs[name][measure]
            gains = differences(values, reference)
            compared[name][measure] = Comparison(
                mean_a=float(np.mean(list(reference.values()))),
                mean_b=float(np.mean(list(values.values()))),
                difference=float(gains.mean()),
                p_value=p,
                confidence_interval=confidence_interval(gains),
            )
    return compared


def format_comparison(name: str, baseline: str, measure: str, comparison: Comparison) -> str:
    """One line: ``tiny - bm25: nDCG@10 +0.019 (-0.005 to +0.043), p 0.12``."""
    low, high = comparison.confidence_interval
    p = f"{comparison.p_value:.2g}" if comparison.p_value >= 0.001 else "< 0.001"
    return f"{name} - {baseline}: {measure} {comparison.difference:+.3f} ({low:+.3f} to {high:+.3f}), p {p}"


def differences(values: Mapping[str, float], reference: Mapping[str, float]) -> Differences:
    """``values`` minus ``reference``, query by query, in the order of the query ids."""
    return np.array([values[query] - reference[query] for query in sorted(values)])


def values_of(trainings: Sequence[PerQuery], measure: str, queries: Sequence[str]) -> Values:
    """Scores ``(trainings, queries)`` in the order of ``queries``."""
    return np.array([[one[measure][query] for query in queries] for one in trainings])


def p_values(
    systems: Mapping[str, Sequence[PerQuery]], reference: str, test: Test = "randomization"
) -> dict[str, dict[str, float]]:
    """``{system: {measure: p-value}}`` of the differences of all other systems from ``reference``.

    A system is the scores of each of its trainings. The test is paired by query and two-sided: ``test``, or if one of
    the two systems has several trainings, that of ``estimate_difference``. For each measure, ``holm`` corrects for the
    number of systems compared.

    >>> runs = {name: [{"P@1": {str(i): value for i in range(10)}}] for name, value in {"a": 0.0, "b": 1.0}.items()}
    >>> p_values(runs, "a")
    {'b': {'P@1': 0.001953125}}
    """
    others = [name for name in systems if name != reference]

    def raw(name: str, measure: str) -> float:
        queries = sorted(systems[reference][0][measure])
        one, other = (values_of(systems[of], measure, queries) for of in (name, reference))
        if len(one) == len(other) == 1:
            return p_value(one[0] - other[0], test)
        return estimate_difference(one, other).p_value()

    corrected = {measure: holm({name: raw(name, measure) for name in others}) for measure in systems[reference][0]}
    return {name: {measure: of_systems[name] for measure, of_systems in corrected.items()} for name in others}


def p_value(values: Differences, test: Test = "randomization") -> float:
    """Two-sided p-value of the mean paired difference; 1 if all differences are zero or there is only one query.

    ``randomization`` is Fisher's randomisation test: the exact distribution over all signs for up to 14
    non-zero differences, otherwise 20,000 random signs with a fixed seed. ``t-test`` is Student's paired t-test.

    >>> p_value(np.array([1.0, 1.0, 1.0])), round(p_value(np.array([1.0, 2.0, 3.0]), "t-test"), 4)
    (0.25, 0.0742)
    """
    if len(values) < 2 or not values.any():
        return 1.0
    from scipy import stats

    if test == "t-test":
        equal = np.ptp(values) == 0  # SciPy divides by the standard deviation
        return 0.0 if equal else float(stats.ttest_1samp(values, 0.0).pvalue)
    nonzero = values[values != 0]
    if len(nonzero) == 1:  # SciPy needs two; both signs are equally far from zero
        return 1.0
    if len(nonzero) <= _EXACT_PAIRS:
        exact = stats.permutation_test((nonzero,), np.sum, permutation_type="samples", n_resamples=np.inf)
        return float(exact.pvalue)
    rng = np.random.default_rng(0)

    def random_signs(size: tuple[int, ...]) -> Any:
        return nonzero * (2.0 * rng.integers(0, 2, size=size, dtype=np.int8) - 1.0)

    # monte_carlo_test takes 2 s for 7,000 queries, permutation_test with resampling 30 s.
    result = stats.monte_carlo_test(
        nonzero, random_signs, np.sum, n_resamples=_RESAMPLES, batch=_BATCH, vectorized=True
    )
    return float(result.pvalue)


def confidence_interval(values: Differences) -> tuple[float, float]:
    """95 % confidence interval of the mean paired difference by Student's t; infinite for a single query."""
    if len(values) < 2:
        return -math.inf, math.inf
    from scipy import stats

    half_width = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))
    return float(values.mean()) - half_width, float(values.mean()) + half_width


def holm(p_of: Mapping[str, float]) -> dict[str, float]:
    """Correct the p-values of several comparisons by the step-down method of Holm (1979).

    The smallest p-value is multiplied by the number of comparisons, the next by one less, and so on. A corrected
    p-value is never smaller than that of a smaller p-value, and at most 1.

    >>> holm({"a": 0.04, "b": 0.25, "c": 0.01})
    {'a': 0.08, 'b': 0.25, 'c': 0.03}
    """
    corrected: dict[str, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_of, key=p_of.__getitem__)):
        largest = max(largest, min(1.0, (len(p_of) - rank) * p_of[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_of}
