"""The table of ``tests.benchmarks.quality``: means over seeds, and intervals over seeds and queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt

from eval.stats import average_of_trainings, difference

Scores = Mapping[str, Mapping[str, float]]
"""Measure of each query, by collection."""


def markdown(result: Mapping[str, Any]) -> str:
    """All contenders, also those that are not tested, and how they were measured."""
    return f"{summary(result)}\n\n{_conditions(result)}"


def summary(result: Mapping[str, Any]) -> str:
    """BM25 and the tested contenders: steps, dev, means of the tests, differences from BM25 and from the reference."""
    columns = sorted(result["bm25"], key=lambda name: (name not in result["trained"], name))
    reference: str = result["reference"]
    tests: dict[str, Sequence[Scores]] = {"BM25": [result["bm25"]], **result["tests"]}
    lines = [
        f"| {result['measure']} | steps | dev | {' | '.join(columns)} | minus BM25 | distilled minus this |",
        f"|---|--:|--:|{'--:|' * len(columns)}--:|--:|",
    ]
    dev = {
        "BM25": mean(result["bm25_dev"].values()),
        **{row: max(scores.values()) for row, scores in result["dev"].items()},
    }
    longer_rows = [(row.partition(", ")[0], row) for row in tests if ", " in row]
    rows = [row for each in result["order"] for row in (each, *(row for name, row in longer_rows if name == each))]
    for row in ["BM25", *rows]:
        name, _, longer = row.partition(", ")
        title = result["titles"].get(name, row) + (f", {longer}" if longer else "")
        steps = f"{result['steps'][row]:,}" if row in result["steps"] else ""
        cells = [title, steps, f"{dev[row]:.3f}" if row in dev else "", *[""] * len(columns), "", ""]
        if row in tests:
            cells[3:-2] = [_mean(tests[row], column) for column in columns]
            pairs = (("BM25", row, "BM25"), (reference, reference, row))
            cells[-2:] = [
                "" if row == itself
                else _signed(tests[one], tests[two], result["trained"])
                for itself, one, two in pairs
            ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    singly = "; ".join(
        f"{row}: " + ", ".join(f"{name} {_signed(tests[row], tests['BM25'], [name])}" for name in result["trained"])
        for row in (reference, *(row for name, row in longer_rows if name == reference))
    )
    return "\n".join([*lines, "", f"Above BM25 on each collection: {singly}."])


def _conditions(result: Mapping[str, Any]) -> str:
    sizes = result["sizes"]
    trained = " and ".join(result["trained"])
    seeds = len(result["tests"][result["reference"]])
    return (
        f"- Budget: the steps of {result['minutes']:g} minutes on one core of {result['timed_on']}, more where the row "
        f"says so. {sizes['training_queries']:,} training queries, or all where the row says so; batches of "
        f"{sizes['batch']} queries with {sizes['hard_negatives']} hard negatives.\n"
        f"- Dev: the better of {len(result['dev'][result['reference']])} learning rates.\n"
        f"- Tests: whole collections; mean and standard deviation of {seeds} seeds, or one seed without a deviation.\n"
        f"- Differences: means of {trained}; 95 % intervals over seeds and queries.\n"
        f"- Teacher: {sizes['teacher_steps']} steps on the same queries. Its time is not counted; distilled rows share "
        "its scores.\n"
        "- Settings: our kind of distillation was chosen in nine earlier trials, six on dev queries and three on "
        "training queries that are not used here. Of two rows of sentence-transformers, both with or both without a "
        "teacher, the better on dev is tested. Its losses have their own settings. The row with all training queries "
        "was added after the tests of our other rows were read, its second and third seed after those of the first.\n"
        f"- Measured on: {' and '.join(result['machines'])}, {result['precision']}."
    )


def _signed(first: Sequence[Scores], second: Sequence[Scores], collections: Sequence[str]) -> str:
    """Mean of ``first`` minus ``second`` over seeds, queries and collections, and the ends of its 95 % interval."""
    weights = dict.fromkeys(collections, 1 / len(collections))
    one, other = (
        average_of_trainings({at: [{"": seed[at]} for seed in of] for at in collections}, weights)
        for of in (first, second)
    )
    estimate = difference(one, other, "")
    return "{:+.3f} ({:+.3f} to {:+.3f})".format(estimate.value, *estimate.interval)


def _table(seeds: Sequence[Scores], collection: str) -> npt.NDArray[np.float64]:
    """One row a seed, one column a query."""
    queries = sorted(seeds[0][collection])
    return np.array([[seed[collection][query] for query in queries] for seed in seeds])


def _mean(seeds: Sequence[Scores], collection: str) -> str:
    """Mean over queries and seeds, and the standard deviation over seeds."""
    means = _table(seeds, collection).mean(axis=1)
    return f"{means.mean():.3f}" + (f" ± {means.std(ddof=1):.3f}" if len(means) > 1 else "")
