"""``python -m tests.benchmarks.quality WORK --data DIR``: quality at equal minutes, beside sentence-transformers.

Each contender trains the same start weights on the same queries and hard negatives, in as many steps of the same batch
as it makes in ``--minutes`` of one core (measured first). Learning rates are chosen on dev queries, with equally many
trials for each. The best contender of each group on dev is trained with more seeds, one of ours also for longer; then
the test splits are searched once. Collections are whole. ``python -m tests.benchmarks.report`` writes the table into
README.md.

All takes hours. Steps that are done are kept in WORK. Each measurement is also written to ``--parts``: with that file
alone, another machine with the same precision goes on.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from learned_sparse.collections import load_collection
from learned_sparse.core import positive, run_main, write_json
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

PACKAGES = ("torch", "transformers", "sentence-transformers")


def main(argv: list[str] | None = None) -> int:
    """Run all steps that are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.quality", description=main.__doc__)
    parser.add_argument("work", type=Path, help="folder of all steps, kept between calls")
    parser.add_argument("--data", type=Path, required=True, help="folder with the collections in BEIR's layout")
    parser.add_argument("--minutes", type=float, default=8.0, help="training of each model on one core (default 8)")
    parser.add_argument("--longer", type=float, default=0, help="train ours, distilled, also for so many times")
    parser.add_argument("--jobs", type=positive, default=2, help="commands at a time, of one thread each (default 2)")
    parser.add_argument("--toy", action="store_true", help="a few steps and documents, to try the script")
    parser.add_argument("--parts", type=Path, help="file of finished measurements (default: parts.json in WORK)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "quality.json")
    options = parser.parse_args(argv)
    queries = few(QUERIES, toy=options.toy)
    settings = {"minutes": options.minutes, "toy": options.toy, "queries": queries, "precision": PRECISION}
    parts = Parts(options.parts or options.work / "parts.json", settings)
    work = Work(options.work.resolve(), options.data.resolve(), parts, options.minutes, options.jobs, toy=options.toy)
    write_json(options.output, result(work, options.longer))
    print(f"{options.output}: written")
    return 0


def trial(work: Work, contender: str, rate: float) -> float:
    """Mean over the trained collections of the measure on dev queries."""

    def measure() -> float:
        model, _ = work.train(contender, rate, work.steps(contender), SEEDS[0])
        means = [mean(work.scores(work.run(model, name, "dev"), name, "dev")) for name in TRAINED]
        return sum(means) / len(means)

    return float(work.parts.once(f"dev of {contender}, learning rate {rate:g}", measure))


def result(work: Work, longer: float) -> dict[str, Any]:
    """Do everything that is missing; settings, trials, and the scores of all test queries."""
    work.each(work.bm25_run, [(name, "train") for name in TRAINED])
    work.start()
    work.each(work.steps, [(name,) for name, each in CONTENDERS.items() if each.timed_as is None])
    steps = {name: work.steps(name) for name in CONTENDERS}
    trials = [(contender, rate) for contender in CONTENDERS for rate in RATES]
    first = DISTILLED, RATES[0]  # it makes the teacher's scores, beside trials that need none
    order = sorted(trials, key=lambda each: (each != first, CONTENDERS[each[0]].teacher))
    work.each(partial(trial, work), order)
    dev = {each: trial(work, *each) for each in trials}
    chosen = {name: max((dev[name, rate], rate) for rate in RATES)[1] for name in CONTENDERS}
    groups = dict.fromkeys(each.group for each in CONTENDERS.values())
    final = [
        max((dev[name, chosen[name]], name) for name, each in CONTENDERS.items() if each.group == group)[1]
        for group in groups
    ]
    longest = {f"{DISTILLED}, {longer:g} times the minutes": (DISTILLED, work.steps(DISTILLED, longer))}
    rows = longest if longer else {}
    rows |= {name: (name, steps[name]) for name in final}
    models = [(row, seed) for row in rows for seed in (SEEDS if row in final else SEEDS[:1])]  # the longest first
    scores = work.each(lambda row, seed: tested(work, rows[row][0], chosen[rows[row][0]], rows[row][1], seed), models)
    tests = dict(zip(models, scores, strict=True))
    bm25 = {f"{name} {split}": work.scores(work.bm25_run(name, split), name, split) for name, split in TESTS}
    return {
        "toy": work.toy, "reference": DISTILLED, "titles": {name: each.title for name, each in CONTENDERS.items()},
        "minutes": work.minutes, "measure": MEASURE,
        "steps": {**steps, **{row: number for row, (_, number) in rows.items()}},
        "sizes": {
            "batch": BATCH, "hard_negatives": NEGATIVES, "teacher_steps": TEACHER_STEPS,
            "training_queries": sum(len(load_collection(work.collection(name)).qrels("train")) for name in TRAINED),
        },
        "reranked": work.parts.once("re-ranked", work.reranked),
        "dev": {name: {f"{rate:g}": dev[name, rate] for rate in RATES} for name in CONTENDERS},
        "learning_rate": chosen, "trained": [f"{name} test" for name in TRAINED], "bm25": bm25,
        "tests": {row: [tests[each] for each in models if each[0] == row] for row in rows},
        "machines": work.parts.machines, "precision": PRECISION, "versions": harness.installed(*PACKAGES),
    }  # fmt: skip


def tested(work: Work, contender: str, rate: float, steps: int, seed: int) -> dict[str, dict[str, float]]:
    """The measure of each test query, by collection and split."""

    def measure() -> dict[str, dict[str, float]]:
        model, _ = work.train(contender, rate, steps, seed)
        return {f"{name} {split}": work.scores(work.run(model, name, split), name, split) for name, split in TESTS}

    name = f"tests of {contender}, learning rate {rate:g}, {steps} steps, seed {seed}"
    return dict(work.parts.once(name, measure))


if __name__ == "__main__":
    run_main(main)
