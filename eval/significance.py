"""Whether the runs of a table differ from one of them by more than chance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from eval.claims import SIGNIFICANT, randomization_test

PerQuery = Mapping[str, Mapping[str, float]]
"""Measure → query → value."""


def chances(runs: Mapping[str, PerQuery], reference: str) -> dict[str, dict[str, float]]:
    """``{run: {measure: p}}`` of every run but ``reference``: Fisher's paired randomisation test, two-sided.

    Bonferroni: each p is multiplied by the number of runs compared, and is at most 1.

    >>> runs = {name: {"P@1": {str(i): value for i in range(10)}} for name, value in {"a": 0.0, "b": 1.0}.items()}
    >>> chances(runs, "a")
    {'b': {'P@1': 0.001953125}}
    """
    others = [name for name in runs if name != reference]
    return {
        name: {
            measure: min(1.0, len(others) * randomization_test(_differences(values, runs[reference][measure])))
            for measure, values in runs[name].items()
        }
        for name in others
    }


def said(found: Mapping[str, Mapping[str, float]], reference: str) -> str:
    """One line: which runs differ significantly in which measure.

    >>> said({"a": {"MAP": 0.01, "P@1": 0.2}, "b": {"MAP": 0.001, "P@1": 0.3}}, "c")
    'significantly different from c (p < 0.05): MAP: a, b'
    """
    measures = next(iter(found.values()), {})
    differing = {measure: [name for name in found if found[name][measure] < SIGNIFICANT] for measure in measures}
    parts = [f"{measure}: {', '.join(names)}" for measure, names in differing.items() if names]
    return f"significantly different from {reference} (p < {SIGNIFICANT}): {'; '.join(parts) or 'none'}"


def _differences(values: Mapping[str, float], others: Mapping[str, float]) -> np.ndarray:
    return np.array([values[query] - others[query] for query in sorted(values)])
