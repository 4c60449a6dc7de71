"""The table of ``tests.benchmarks.quality``: means over seeds, and intervals over seeds and queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 2000
REFERENCE = "distilled"
"""The contender that the others are compared with."""
Scores = Mapping[str, Mapping[str, float]]
"""Measure of each query, by collection."""


def markdown(result: Mapping[str, Any]) -> str:
    """BM25 and all contenders: steps, dev, means of the tests, and the difference of the reference from each."""
    columns = list(result["bm25"])
    reference = result["tests"][REFERENCE]
    gain = f"{result['titles'][REFERENCE]} minus this, 95 %"
    lines = [
        f"| {result['measure']} | steps | dev | {' | '.join(columns)} | {gain} |",
        f"|---|--:|--:|{'--:|' * len(columns)}--:|",
    ]
    rows = {"BM25": [result["bm25"]], **{title: result["tests"][name] for name, title in result["titles"].items()}}
    names = {title: name for name, title in result["titles"].items()}
    for title, seeds in rows.items():
        name = names.get(title)
        steps = "" if name is None else f"{result['steps'][name]:,}"
        dev = "" if name is None else f"{max(result['dev'][name].values()):.3f}"
        means = " | ".join(_mean(seeds, column) for column in columns)
        gain = "" if name == REFERENCE else "{:+.3f} ({:+.3f} to {:+.3f})".format(
            *difference(reference, seeds, result["trained"])
        )  # fmt: skip
        lines.append(f"| {title} | {steps} | {dev} | {means} | {gain} |")
    sizes = result["sizes"]
    text = (
        f"Each model: {result['minutes']:g} minutes of one core, {sizes['training_queries']:,} training queries, "
        f"batches of {sizes['batch']} queries with {sizes['hard_negatives']} hard negatives, the better of "
        f"{len(result['dev'][REFERENCE])} learning rates on dev queries (in pools of documents), {len(reference)} "
        f"seeds. The difference is the mean of {' and '.join(result['trained'])}; its interval resamples seeds and "
        "queries. The time of the teacher and of its scores is not counted: all distilled rows use the same scores."
    )
    return "\n".join([*lines, "", text])


def difference(first: Sequence[Scores], second: Sequence[Scores], collections: Sequence[str]) -> tuple[float, ...]:
    """Mean of ``first`` minus ``second`` over seeds, queries and collections, and the ends of its 95 % interval."""
    draw = np.random.default_rng(0)
    resamples = np.zeros(RESAMPLES)
    mean = 0.0
    for name in collections:
        one, other = _table(first, name), _table(second, name)
        mean += (one.mean() - other.mean()) / len(collections)
        queries = draw.integers(one.shape[1], size=(RESAMPLES, one.shape[1]))
        for values, sign in ((one, 1), (other, -1)):
            seeds = draw.integers(len(values), size=(RESAMPLES, len(values)))
            means = [values[s][:, q].mean() for s, q in zip(seeds, queries, strict=True)]
            resamples += sign * np.array(means) / len(collections)
    low, high = np.quantile(resamples, [0.025, 0.975])
    return mean, float(low), float(high)


def _table(seeds: Sequence[Scores], collection: str) -> npt.NDArray[np.float64]:
    """One row a seed, one column a query."""
    queries = sorted(seeds[0][collection])
    return np.array([[seed[collection][query] for query in queries] for seed in seeds])


def _mean(seeds: Sequence[Scores], collection: str) -> str:
    """Mean over queries and seeds, and the standard deviation over seeds."""
    means = _table(seeds, collection).mean(axis=1)
    return f"{means.mean():.3f}" + (f" ± {means.std(ddof=1):.3f}" if len(means) > 1 else "")
