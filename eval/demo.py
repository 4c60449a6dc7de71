"""``python -m eval.demo``: a published model, then the four systems, on the embedded collection, beside BM25."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Sequence
from typing import Any

from eval.reproduce.matrix import load_matrix
from eval.reproduce.plan import CellPlan, Plan, make_plan
from eval.reproduce.runner import Runner, in_this_process, only_one
from eval.stats import comparisons, format_comparison
from eval.tables import Cell, Column, format_table
from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import home, read_json, run_file
from learned_sparse.core.settings import CommandParser

MATRIX = "demo"
READY = ("BM25", "splade-tiny", "hybrid")
"""Rows of the first table: nothing is trained. The first is the baseline."""
MODELS = ("sparterm", "splade", "spade", "uhd")
"""Rows that are trained."""
COLLECTION, SPLIT = "pydoc", "test"
_COLUMNS = (
    Column("model"),
    Column("MRR@10", best="highest"),
    Column("R@100", best="highest"),
    Column("FLOPS", 2),
    Column("terms/doc", 1),
    Column("terms/query", 1),
    Column("encode ms/query", 1),
    Column("search ms/query", 1),
)
_LIMITS = """\
What the tables show: the chain works, from texts to measures. What they do not show: which system is better. Each is
trained once, for less than a minute, from the network of splade-tiny, which was trained on MS MARCO."""


def main(argv: list[str] | None = None) -> int:
    """Run the steps that are not done; print a table before training and one after it."""
    parser = CommandParser(
        prog="python -m eval.demo",
        description=main.__doc__,
        epilog="The same with a page to look at: python -m eval.reproduce --matrix demo",
    )
    parser.add_argument(
        "--models", nargs="*", default=MODELS, choices=MODELS, metavar="MODEL",
        help=f"train these of {', '.join(MODELS)} (default: all; no name: none)",
    )  # fmt: skip
    parser.add_argument("--commands", action="store_true", help="show each step's command and all that it prints")
    options = parser.parse_args(argv)
    started = time.monotonic()
    print(f"First {', '.join(READY)}, without training:", flush=True)
    _measure(READY, show=options.commands)
    print(f"{time.monotonic() - started:.0f} s; nothing was trained\n", flush=True)
    if options.models:
        print(f"Now {', '.join(options.models)}, with training:", flush=True)
        _measure((*READY, *options.models), show=options.commands)
        print(_LIMITS)
    print("FLOPS: mean number of terms a query and a document share. Times: means, one query at a time, one thread.")
    print(f"Runs: {run_file(COLLECTION, SPLIT, 'MODEL')}")
    print(f"Everything is in {home()}; {time.monotonic() - started:.0f} s")
    print("\nnext, a page to search these indexes side by side and to see why a document is found:")
    print("  python -m learned_sparse.serve")
    return 0


def _measure(rows: Sequence[str], *, show: bool) -> None:
    """Run the steps of ``rows`` that are not done, and print their table."""
    plan = make_plan(load_matrix(MATRIX), MATRIX, rows=rows)
    _run(plan, show=show)
    sizes = read_json(str(plan.cells[0].costs))
    collection = f"{sizes['documents']:,} docstrings of this Python, {sizes['queries']:,} test queries"
    print(f"\nKnown-item search in {collection}:\n")
    print(format_table(_COLUMNS, [_row(cell) for cell in plan.cells]))
    print("\nDifferences from BM25, with 95 % intervals over the queries and Holm's correction over the models:")
    baseline = plan.cells[0].run.stem
    compared = comparisons({cell.run.stem: [_evaluated(cell)["per_query"]] for cell in plan.cells}, baseline)
    for name, measures in compared.items():
        for measure, comparison in measures.items():
            print(f"  {format_comparison(name, baseline, measure, comparison)}")
    print()


def _run(plan: Plan, *, show: bool) -> None:
    """Run all steps in this process, which imports torch once; raise the first error."""
    loggers = [logging.getLogger(package) for package in ("learned_sparse", "encoders")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:  # of the commands, only warnings
        logger.setLevel(logging.NOTSET if show else logging.WARNING)
    try:
        with only_one():
            runner = Runner(plan.steps, functools.partial(in_this_process, display=show))
            runner.run()
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    for error in runner.failed.values():
        raise LearnedSparseError(error)


def _row(cell: CellPlan) -> list[Cell]:
    costs: dict[str, Any] = read_json(str(cell.costs))["costs"]
    search, both = costs["mean ms/query"], costs["mean ms/query with encoding"]
    encoding = None if cell.checkpoint is None else both - search
    sparsity = [costs["FLOPS"], costs["terms/document"], costs["terms/query"]]
    return [cell.run.stem, *_evaluated(cell)["scores"].values(), *sparsity, encoding, search]


def _evaluated(cell: CellPlan) -> dict[str, Any]:
    """Scores of the run, means and by query."""
    return dict(read_json(cell.evaluated)["runs"][0])


if __name__ == "__main__":
    run_main(main)
