"""From a matrix to its plan: which cells, and every step that they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from eval.reproduce.matrix import Column, Matrix
from eval.reproduce.plan import CellPlan, Plan, ordered
from eval.reproduce.plan_rows import cell_plan
from eval.reproduce.plan_steps import Builder
from eval.reproduce.plan_target import Target, target
from learned_sparse.core import LearnedSparseError, did_you_mean


def make_plan(
    matrix: Matrix,
    name: str,
    data: Path | None = None,
    *,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    threads: int | None = None,
    lenient: bool = False,
) -> Plan:
    """The plan of the chosen ``rows`` and ``columns`` (empty: of all); ``threads``: for each search and indexing.

    A collection that is not there is an error, or with ``lenient`` a column without cells.
    """
    for chosen, known, option in ((rows, matrix.rows, "--row"), (columns, matrix.columns, "--column")):
        for word in chosen:
            if word not in known:
                raise LearnedSparseError(f"{option} {word}: not in this matrix{did_you_mean(word, known)}")
    builder = Builder(matrix=matrix, data=data, threads=threads)
    wanted = {key: column for key, column in matrix.columns.items() if not columns or key in columns}
    on = {key: found for key, column in wanted.items() if (found := _target(builder, column, lenient))}
    cells = tuple(_cells(builder, on, [key for key in matrix.rows if not rows or key in rows]))
    steps = tuple(ordered(step for cell in cells for step in cell.steps))
    return Plan(name=name, matrix=matrix, data=data, steps=steps, cells=cells)


def _cells(builder: Builder, on: dict[str, Target], rows: Iterable[str]) -> Iterable[CellPlan]:
    for name in rows:
        row = builder.matrix.rows[name]
        seeds = builder.matrix.rows[row.model].seeds if row.model else row.seeds
        for column, where in on.items():
            if row.runs_on(column):
                yield from (cell_plan(builder, name, column, where, seed) for seed in seeds or (None,))


def _target(builder: Builder, column: Column, lenient: bool) -> Target | None:
    try:
        found = target(column.collection, column.split, column.measures)
    except LearnedSparseError:
        if lenient:
            return None
        raise
    return builder.pool(found, column.pool) if column.pool else found
