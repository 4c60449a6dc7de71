"""Whether the runs of a table differ from one of them by more than chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt

Test = Literal["randomization", "t-test"]
PerQuery = Mapping[str, Mapping[str, float]]
"""Measure → query → value."""
Differences = npt.NDArray[np.float64]
"""One for each query that two runs are compared on."""

SIGNIFICANT = 0.05
EXACT = 14
"""Pairs that differ, up to which every sign is tried."""
_RESAMPLINGS, _AT_ONCE = 20_000, 1_000


def chances(runs: Mapping[str, PerQuery], reference: str, test: Test = "randomization") -> dict[str, dict[str, float]]:
    """``{run: {measure: p}}`` of every run but ``reference``: a paired test, two-sided, over their queries.

    Each p is corrected for the number of runs compared, for each measure by itself (``holm``).

    >>> runs = {name: {"P@1": {str(i): value for i in range(10)}} for name, value in {"a": 0.0, "b": 1.0}.items()}
    >>> chances(runs, "a")
    {'b': {'P@1': 0.001953125}}
    """
    others = [name for name in runs if name != reference]
    corrected = {
        measure: holm({name: chance(differences(runs[name][measure], of_reference), test) for name in others})
        for measure, of_reference in runs[reference].items()
    }
    return {name: {measure: found[name] for measure, found in corrected.items()} for name in others}


def chance(values: Differences, test: Test = "randomization") -> float:
    """How likely a mean at least this far from 0 is where nothing but chance makes the differences."""
    return t_test(values) if test == "t-test" else randomization_test(values)


def holm(chances: Mapping[str, float]) -> dict[str, float]:
    """Holm and Bonferroni's correction of the p of several comparisons, each under its name.

    The smallest p is multiplied by their number, the next by one less, and so on; none ends below a smaller one's, none
    above 1. What is below a level then is wrong in any of them by no more than that chance (Holm, 1979).

    >>> holm({"a": 0.04, "b": 0.25, "c": 0.01})
    {'a': 0.08, 'b': 0.25, 'c': 0.03}
    """
    corrected: dict[str, float] = {}
    largest = 0.0
    for place, name in enumerate(sorted(chances, key=chances.__getitem__)):
        largest = max(largest, min(1.0, (len(chances) - place) * chances[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in chances}


def randomization_test(values: Differences, seed: int = 0) -> float:
    """Fisher's paired randomisation test, two-sided: how often random signs give a mean as far from 0 or farther.

    Exact for up to 14 pairs that differ, with 20,000 seeded resamplings beyond.

    >>> randomization_test(np.array([1.0, 1.0, 1.0]))
    0.25
    """
    some = values[values != 0]
    if len(some) == 0:
        return 1.0
    observed = abs(some.sum()) - 1e-9 * np.abs(some).sum()  # sums in another order differ in their last digits
    if len(some) <= EXACT:
        signs = 1 - 2 * ((np.arange(2 ** len(some))[:, None] >> np.arange(len(some))) & 1)
        return float((np.abs(signs @ some) >= observed).mean())
    rng, extreme = np.random.default_rng(seed), 0
    for _ in range(_RESAMPLINGS // _AT_ONCE):
        kept = rng.integers(0, 2, size=(_AT_ONCE, len(some)), dtype=np.uint8)
        extreme += int((np.abs(2 * (kept @ some) - some.sum()) >= observed).sum())
    return (extreme + 1) / (_RESAMPLINGS + 1)


def t_test(values: Differences) -> float:
    """Student's paired t-test, two-sided; 1 where a single pair, or none that differs, says nothing.

    >>> round(t_test(np.array([1.0, 2.0, 3.0])), 4)
    0.0742
    """
    if len(values) < 2 or not values.any():
        return 1.0
    spread = float(values.std(ddof=1))
    if spread == 0:
        return 0.0  # the same difference everywhere
    from scipy.special import stdtr

    return float(2 * stdtr(len(values) - 1, -abs(values.mean()) * len(values) ** 0.5 / spread))


def differences(values: Mapping[str, float], others: Mapping[str, float]) -> Differences:
    """``values`` minus ``others``, query by query."""
    return np.array([values[query] - others[query] for query in sorted(values)])


def said(found: Mapping[str, Mapping[str, float]], reference: str) -> str:
    """One line: which runs differ significantly in which measure.

    >>> said({"a": {"MAP": 0.01, "P@1": 0.2}, "b": {"MAP": 0.001, "P@1": 0.3}}, "c")
    'significantly different from c (p < 0.05): MAP: a, b'
    """
    measures = next(iter(found.values()), {})
    differing = {measure: [name for name in found if found[name][measure] < SIGNIFICANT] for measure in measures}
    parts = [f"{measure}: {', '.join(names)}" for measure, names in differing.items() if names]
    return f"significantly different from {reference} (p < {SIGNIFICANT}): {'; '.join(parts) or 'none'}"
