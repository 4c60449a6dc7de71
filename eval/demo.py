"""``python -m eval.demo``: a published model, then the four systems, on the embedded collection, beside BM25."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from eval.stats import comparisons, format_comparison
from eval.tables import Cell, Column, format_table
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import home, read_json, run_file
from learned_sparse.core.settings import CommandParser

if TYPE_CHECKING:
    from eval.reproduce import CellPlan, Plan, Runner, Step

MATRIX = "demo"
READY = ("BM25", "splade-tiny", "hybrid")
"""Rows of the first table: nothing is trained. The first is the baseline."""
MODELS = ("sparterm", "splade", "spade", "uhd")
"""Rows that are trained."""
COLLECTION, SPLIT = "pydoc", "test"
SECONDS = {
    "train sparterm": 39, "train splade": 31, "train spade": 25, "train uhd": 27, "encode queries": 1, "encode": 10,
    "index": 2, "search": 2, "evaluate": 2, "costs": 3,
}  # fmt: skip
"""Expected times of steps by the beginning of their titles, for the time left."""
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
    _measure(READY, show=options.commands)
    print(f"{time.monotonic() - started:.0f} s; nothing was trained\n", flush=True)
    if options.models:
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
    plan = _plan(rows)
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


def _plan(rows: Sequence[str]) -> Plan:
    from eval.reproduce import load_matrix, make_plan

    return make_plan(load_matrix(MATRIX), MATRIX, rows=rows)


def _run(plan: Plan, *, show: bool) -> None:
    """Run all steps in this process, which imports torch once; raise the first error."""
    from eval.reproduce import Runner, in_this_process, only_one

    with only_one():
        if show:
            runner = Runner(plan.steps, in_this_process)
            runner.run()
        else:
            lines = _Lines(in_this_process, len(plan.steps))
            runner = Runner(plan.steps, lines)
            with _only_warnings():
                lines.runner = runner
                runner.run()
    for error in runner.failed.values():
        raise LearnedSparseError(error)


class _Lines:
    """Runs steps with one line for each: its time, and about how long the others take. Their output is in logs."""

    def __init__(self, execute: Callable[[Step], str | None], total: int) -> None:
        self._execute, self._total = execute, total
        self._seconds = self._expected = 30.0  # so that the first steps, of seconds, decide little
        self.runner: Runner | None = None

    def __call__(self, step: Step) -> str | None:
        from eval.reproduce import log_of

        log, started = log_of(step), time.monotonic()
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("a", encoding="utf-8", newline="\n") as file, contextlib.redirect_stdout(file):
                error = self._execute(step)
        except LearnedSparseError as problem:
            raise LearnedSparseError(f"{step.command}: {problem} (its output is in {log})") from problem
        seconds = time.monotonic() - started
        self._seconds, self._expected = self._seconds + seconds, self._expected + _expected(step)
        todo = self.runner.todo if self.runner else []
        left = sum(map(_expected, todo)) * self._seconds / self._expected
        done = f"[{self._total - len(todo)}/{self._total}]"
        print(f"{done} {step.title}: {seconds:.0f} s" + (f", about {left:.0f} s left" if todo else ""), flush=True)
        return error


def _expected(step: Step) -> float:
    return next(seconds for title, seconds in SECONDS.items() if step.title.startswith(title))


@contextlib.contextmanager
def _only_warnings() -> Iterator[None]:
    """Messages of the steps below a warning are left out."""
    loggers = [logging.getLogger(name) for name in ("learned_sparse", "encoders", "eval")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def _row(cell: CellPlan) -> list[Cell]:
    name = cell.run.stem
    costs: dict[str, Any] = read_json(str(cell.costs))["costs"]
    search, both = costs["mean ms/query"], costs["mean ms/query with encoding"]
    encoding = None if cell.checkpoint is None else both - search
    sparsity = [costs["FLOPS"], costs["terms/document"], costs["terms/query"]]
    return [name, *_evaluated(cell)["scores"].values(), *sparsity, encoding, search]


def _evaluated(cell: CellPlan) -> dict[str, Any]:
    """Scores of the run, means and by query."""
    evaluated: dict[str, Any]
    (evaluated,) = read_json(cell.evaluated)["runs"]
    return evaluated


if __name__ == "__main__":
    from learned_sparse.core.errors import run_main

    run_main(main)
