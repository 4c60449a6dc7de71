"""``python -m eval.demo``: train small models on the embedded collection, search with Lucene, compare with BM25."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eval.costs import encode_milliseconds
from eval.measures import Cell, Column, format_table
from learned_sparse.collections import load_collection
from learned_sparse.core import LearnedSparseError, did_you_mean, home, index_folder, read_json, run_file

if TYPE_CHECKING:
    from eval.reproduce import CellPlan, Plan

MATRIX = "demo"
BASELINE = "BM25"
MODELS = ("sparterm-literal", "sparterm", "splade")
OTHER_MODELS = ("spade", "uhd")
"""Models that the demo trains only if they are named, to stay quick."""
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


def main(argv: list[str] | None = None) -> int:
    """Run every step that is not done yet, show the commands, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m eval.demo",
        description=main.__doc__,
        epilog="The same with a page to look at: python -m eval.reproduce --matrix demo",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=MODELS,
        metavar="MODEL",
        help=f"of {', '.join((*MODELS, *OTHER_MODELS))}; or all (default: {' '.join(MODELS)})",
    )
    models = chosen_models(parser.parse_args(argv).models)
    started = time.monotonic()
    plan = _plan(models)
    _run(plan)
    rows = [_row(cell) for cell in plan.cells]
    sizes = read_json(str(plan.cells[0].costs))
    collection = f"{sizes['documents']:,} docstrings of this Python, {sizes['queries']:,} test queries"
    print(f"\nKnown-item search in {collection}:\n")
    print(format_table(_COLUMNS, rows))
    print(f"\n{_summary(rows)}\n")
    print("FLOPS: mean number of terms a query and a document share. Times: medians, one query at a time, one thread.")
    print(
        f"Runs: {run_file(COLLECTION, SPLIT, 'MODEL')}\nEverything is in {home()}; {time.monotonic() - started:.0f} s"
    )
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


def _run(plan: Plan) -> None:
    """Run all steps in this process, which imports torch once; raise the first error."""
    from eval.reproduce import Runner, in_this_process, only_one

    with only_one():
        runner = Runner(plan.steps, in_this_process)
        runner.run()
    for error in runner.failed.values():
        raise LearnedSparseError(error)


def _row(cell: CellPlan) -> list[Cell]:
    name = cell.run.stem
    (evaluated,) = read_json(cell.evaluated)["runs"]
    costs: dict[str, Any] = read_json(str(cell.costs))["costs"]
    encoding = None
    if cell.checkpoint is not None:
        queries = load_collection(COLLECTION).queries(SPLIT)
        encoding = encode_milliseconds(index_folder(COLLECTION, name), queries).median
    sparsity = [costs["FLOPS"], costs["terms/document"], costs["terms/query"]]
    return [name, *evaluated["scores"].values(), *sparsity, encoding, costs["ms/query"]]


def _summary(rows: Sequence[Sequence[Cell]]) -> str:
    """The learned models above the baseline, which is the first row, in each measure."""
    baseline, *learned = rows
    sentences = []
    for column in (1, 2):
        above = [str(row[0]) for row in learned if float(str(row[column])) > float(str(baseline[column]))]
        sentences.append(f"{_COLUMNS[column].heading}: above BM25: {', '.join(above) or 'none'}.")
    return " ".join(sentences)


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
