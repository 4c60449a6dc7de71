"""``python -m tests.benchmarks.quality WORK --data DIR``: quality at equal minutes, beside sentence-transformers.

Each contender trains the same start weights on the same queries and hard negatives, in as many steps of the same batch
as it makes in ``--minutes`` of one core (measured first). Learning rates are chosen on dev queries, with equally many
trials for each. The best contender of each group on dev is trained with more seeds; with ``--longer``, ours distilled
is also trained for longer, on the same queries and on all training queries. The test splits are searched with these
models only. ``--longer`` also measures a learning curve on dev queries. Collections are whole. ``python -m
tests.benchmarks.report`` writes the table into README.md.

All takes hours. Steps that are done are kept in WORK. Each measurement is also written to ``--parts``: with that file
alone, another machine with the same precision goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import run_main
from learned_sparse.core.files import write_json
from learned_sparse.core.settings import positive
from tests.benchmarks import harness
from tests.benchmarks.quality_contenders import BATCH, CONTENDERS, DISTILLED, NEGATIVES, PRECISION
from tests.benchmarks.quality_work import (
    MEASURE,
    QUERIES,
    RATES,
    SEEDS,
    TEACHER_STEPS,
    TESTS,
    TRAINED,
    Parts,
    Work,
    few,
    mean,
)  # fmt: skip

GROUPS = tuple(dict.fromkeys(CONTENDERS[name].group for name in (DISTILLED, *CONTENDERS)))
Tests = dict[str, dict[str, float]]
"""The measure of each test query, by collection and split."""
PACKAGES = ("torch", "transformers", "sentence-transformers")


def main(argv: list[str] | None = None) -> int:
    """Run all steps that are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.quality", description=main.__doc__)
    parser.add_argument("work", type=Path, help="folder of all steps, kept between calls")
    parser.add_argument("--data", type=Path, required=True, help="folder with the collections in BEIR's layout")
    parser.add_argument("--minutes", type=float, default=8.0, help="training of each model on one core (default 8)")
    parser.add_argument(
        "--longer", type=float, default=0, help="train ours, distilled, also for so many times the minutes"
    )
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=GROUPS, help=f"{DISTILLED} and these groups")
    parser.add_argument("--jobs", type=positive, default=2, help="commands at a time, of one thread each (default 2)")
    parser.add_argument("--toy", action="store_true", help="a few steps and documents, to try the script")
    parser.add_argument("--parts", type=Path, help="file of finished measurements (default: parts.json in WORK)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "quality.json")
    options = parser.parse_args(argv)
    queries = few(QUERIES, toy=options.toy)
    settings = {"minutes": options.minutes, "toy": options.toy, "queries": queries, "precision": PRECISION}
    parts = Parts(options.parts or options.work / "parts.json", settings)
    work = Work(options.work.resolve(), options.data.resolve(), parts, options.minutes, options.jobs, toy=options.toy)
    write_json(options.output, result(work, options.only, options.longer))
    print(f"{options.output}: written")
    return 0


def trial(work: Work, contender: str, rate: float) -> float:
    """Mean over the trained collections of the measure on dev queries."""

    def measure() -> float:
        model, _ = work.train(contender, rate, work.steps(contender), SEEDS[0])
        means = [mean(work.scores(work.run(model, name, "dev"), name, "dev")) for name in TRAINED]
        return sum(means) / len(means)

    return float(work.parts.once(f"dev of {contender}, learning rate {rate:g}", measure))


def result(work: Work, groups: Sequence[str], longer: float) -> dict[str, Any]:
    """Do everything that is missing of ``groups``; settings, trials, and the scores of all test queries."""
    groups = [group for group in GROUPS if group in groups or group == CONTENDERS[DISTILLED].group]
    names = [name for name in CONTENDERS if CONTENDERS[name].group in groups]
    work.each(work.bm25_run, [(name, "train") for name in TRAINED])
    work.start()
    work.each(work.steps, [(name,) for name in dict.fromkeys(CONTENDERS[name].timed_as or name for name in names)])
    steps = {name: work.steps(name) for name in names}
    timed_on = work.parts.once("processor of the seconds per step", lambda: harness.environment()["cpu"])
    longest = [(CONTENDERS[DISTILLED].group, longer, queries) for queries in (None, QUERIES)] if longer else []
    in_turn = sorted(groups, key=lambda group: CONTENDERS[of_group(group)[0]].teacher)  # which others wait for
    rows = [*longest, *((group, 1.0, QUERIES) for group in in_turn)]
    jobs = [partial(tested_row, work, *row) for row in rows] + [partial(point, work, *at) for at in budgets(longer)]
    done = work.each(lambda job: job(), [(job,) for job in jobs])
    tests, curve = dict(done[: len(rows)]), done[len(rows) :]
    dev = {name: {rate: trial(work, name, rate) for rate in RATES} for name in names}
    bm25 = {f"{name} {split}": work.scores(work.bm25_run(name, split), name, split) for name, split in TESTS}
    return {
        "toy": work.toy, "reference": DISTILLED, "order": names,
        "titles": {name: CONTENDERS[name].title for name in names}, "timed_on": timed_on,
        "minutes": work.minutes, "measure": MEASURE,
        "steps": steps | {longer_row(*row[1:]): work.steps(DISTILLED, longer) for row in longest},
        "curve": curve,
        "bm25_dev": {name: mean(work.scores(work.bm25_run(name, "dev"), name, "dev")) for name in TRAINED},
        "sizes": {
            "batch": BATCH, "hard_negatives": NEGATIVES, "teacher_steps": TEACHER_STEPS,
            "training_queries": work.training_queries(),
        },
        "reranked": work.parts.once("re-ranked", work.reranked),
        "dev": {name: {f"{rate:g}": score for rate, score in scores.items()} for name, scores in dev.items()},
        "learning_rate": {name: best(scores) for name, scores in dev.items()},
        "trained": [f"{name} test" for name in TRAINED], "bm25": bm25, "tests": tests,
        "machines": work.parts.machines, "precision": PRECISION, "versions": harness.installed(*PACKAGES),
    }  # fmt: skip


def tested_row(work: Work, group: str, times: float, queries: int | None) -> tuple[str, list[Tests]]:
    """A row's name and its tests: the best of ``group`` on dev queries, trained ``times`` the minutes."""
    dev = {name: {rate: trial(work, name, rate) for rate in RATES} for name in of_group(group)}
    name = max(dev, key=lambda each: max(dev[each].values()))
    seeds = SEEDS[:1] if times != 1 and queries == QUERIES else SEEDS[: CONTENDERS[name].seeds]
    steps, work = work.steps(name, times), work.with_queries(queries)
    row = name if times == 1 else longer_row(times, queries)
    return row, [tested(work, name, best(dev[name]), steps, seed) for seed in seeds]


def budgets(longer: float) -> list[tuple[float, int | None]]:
    """Budgets of the learning curve: times the minutes, and training queries of each collection."""
    if not longer:
        return []
    return [*((longer / parts, QUERIES) for parts in (16, 8, 4, 1)), (longer, None)]


def point(work: Work, times: float, queries: int | None) -> dict[str, Any]:
    """A point of the learning curve of ours, distilled: its budget, and the measure on dev queries."""
    rate = best({rate: trial(work, DISTILLED, rate) for rate in RATES})
    steps, work = work.steps(DISTILLED, times), work.with_queries(queries)

    def measure() -> dict[str, float]:
        model, _ = work.train(DISTILLED, rate, steps, SEEDS[0])
        return {name: mean(work.scores(work.run(model, name, "dev"), name, "dev")) for name in TRAINED}

    name = f"dev curve, learning rate {rate:g}, {steps} steps, {of_queries(queries)}"
    dev = work.parts.once(name, measure)
    return {"minutes": work.minutes * times, "steps": steps, "queries": work.training_queries(), "dev": dev}


def of_group(group: str) -> list[str]:
    """Names of a group's contenders."""
    return [name for name, each in CONTENDERS.items() if each.group == group]


def best(dev: Mapping[float, float]) -> float:
    """The learning rate with the best dev score; of equal ones the larger."""
    return max((score, rate) for rate, score in dev.items())[1]


def longer_row(times: float, queries: int | None) -> str:
    """Name of a row that is trained longer."""
    return f"{DISTILLED}, {times:g} times the minutes" + ("" if queries == QUERIES else f", {of_queries(queries)}")


def of_queries(queries: int | None) -> str:
    """Training queries of each collection, in words."""
    return f"{queries} queries of each" if queries else "all queries"


def tested(work: Work, contender: str, rate: float, steps: int, seed: int) -> Tests:
    """The tests of one model."""

    def measure() -> Tests:
        model, _ = work.train(contender, rate, steps, seed)
        return {f"{name} {split}": work.scores(work.run(model, name, split), name, split) for name, split in TESTS}

    name = f"tests of {contender}, learning rate {rate:g}, {steps} steps, seed {seed}"
    return dict(work.parts.once(name + ("" if work.queries == QUERIES else f", {of_queries(work.queries)}"), measure))


if __name__ == "__main__":
    run_main(main)
