"""``python -m eval.demo``: train small models on the embedded collection, search with Lucene, compare with BM25."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from eval.measures import Cell, Column, confidence_interval, differences, format_table
from learned_sparse.core import CommandParser, LearnedSparseError, did_you_mean, home, read_json, run_file

if TYPE_CHECKING:
    from eval.reproduce import CellPlan, Plan, Runner, Step

MATRIX = "demo"
BASELINE = "BM25"
MODELS = ("splade", "spade")
OTHER_MODELS = ("sparterm-literal", "sparterm", "uhd")
"""Models that the demo trains only if they are named, to stay quick."""
COLLECTION, SPLIT = "pydoc", "test"
SECONDS = {
    "train splade": 57, "train spade": 88, "encode queries": 1, "encode": 44, "index": 2, "search": 2, "evaluate": 2,
    "costs": 4,
}  # fmt: skip
"""Expected times of steps by the beginning of their titles, for the time left; others take as long as "train"."""
TRAINING_SECONDS = 120
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


def main(argv: list[str] | None = None) -> int:
    """Run every step that is not done yet, and print the table."""
    parser = CommandParser(
        prog="python -m eval.demo",
        description=main.__doc__,
        epilog="The same with a page to look at: python -m eval.reproduce --matrix demo",
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=MODELS,
        metavar="MODEL",
        help=f"of {', '.join((*MODELS, *OTHER_MODELS))}; or all (default: {' '.join(MODELS)})",
    )
    parser.add_argument("--commands", action="store_true", help="show each step's command and all that it prints")
    options = parser.parse_args(argv)
    models = chosen_models(options.models)
    started = time.monotonic()
    plan = _plan(models)
    _run(plan, show=options.commands)
    rows = [_row(cell) for cell in plan.cells]
    sizes = read_json(str(plan.cells[0].costs))
    collection = f"{sizes['documents']:,} docstrings of this Python, {sizes['queries']:,} test queries"
    print(f"\nKnown-item search in {collection}:\n")
    print(format_table(_COLUMNS, rows))
    print("\nDifferences from BM25, with 95 % intervals over the queries; other trainings would differ, too:")
    print("\n".join(_summary({cell.run.stem: _evaluated(cell)["per_query"] for cell in plan.cells})), end="\n\n")
    print("FLOPS: mean number of terms a query and a document share. Times: means, one query at a time, one thread.")
    print(f"Runs: {run_file(COLLECTION, SPLIT, 'MODEL')}")
    print(f"Everything is in {home()}; {time.monotonic() - started:.0f} s")
    print("\nnext, a page to search these indexes side by side and to see why a document is found:")
    print("  python -m learned_sparse.serve")
    return 0


def chosen_models(words: Sequence[str]) -> Sequence[str]:
    """The models that ``--models`` names."""
    known = (*MODELS, *OTHER_MODELS)
    if list(words) == ["all"]:
        return known
    for word in words:
        if word not in known:
            raise LearnedSparseError(f"--models {word}: the demo has no such model{did_you_mean(word, known)}")
    return words


def _plan(models: Sequence[str]) -> Plan:
    from eval.reproduce import load_matrix, make_plan

    return make_plan(load_matrix(MATRIX), MATRIX, rows=(BASELINE, *models))


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
    known = (seconds for title, seconds in SECONDS.items() if step.title.startswith(title))
    return next(known, TRAINING_SECONDS)


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


def _summary(values: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[str]:
    """One line for each learned model: its differences from BM25, which is the first, with 95 % intervals."""
    (_, baseline), *learned = values.items()
    for name, measures in learned:
        parts = []
        for measure, queries in measures.items():
            difference = differences(queries, baseline[measure])
            low, high = confidence_interval(difference)
            verdict = "above BM25" if low > 0 else "below BM25" if high < 0 else "may be chance"
            parts.append(f"{measure} {difference.mean():+.3f} ({low:+.3f} to {high:+.3f}: {verdict})")
        yield f"  {name} - bm25: {', '.join(parts)}"


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
