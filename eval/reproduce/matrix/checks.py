"""Checks of claims, and of names that a matrix uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from eval.measures import parse_measure
from eval.reproduce.claims import COSTS, Claim
from eval.reproduce.matrix.budgets import Budgets, check_budgets
from eval.reproduce.matrix.definition import Matrix, columns_of_average
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

Measures = Mapping[str, tuple[str, ...] | None]
"""Measures of each column; None if they are unknown without the data."""


def check_claim(claim: Claim, matrix: Matrix, measures: Measures, budgets: Budgets, where: str) -> None:
    """Raise unless both sides have results of the quantity on the columns of the claim, and equal budgets."""
    rows = [claim.better, claim.worse]
    for row in rows:
        check_known(row, matrix.rows, f"{where}: no row {row!r}")
    if claim.better == claim.worse:
        raise LearnedSparseError(f"{where}: {claim.better!r} is compared with itself")
    published = [row for row in rows if matrix.rows[row].published is not None]
    if len(published) == len(rows):
        raise LearnedSparseError(f"{where}: {claim.better!r} and {claim.worse!r} are published; one row must be ours")
    for column in claim.columns or matrix.columns:
        check_known(column, measures, f"{where}: no column {column!r}")
        for row in published:
            if claim.quantity not in matrix.rows[row].scores.get(column, {}):
                raise LearnedSparseError(f"{where}: {row!r} has no {claim.quantity} on {column!r}")
        for row in set(rows) - set(published):
            if not all(map(matrix.rows[row].runs_on, columns_of_average(matrix, column))):
                raise LearnedSparseError(f"{where}: {row!r} is not run on {column!r}; name the claim's columns")
        if claim.quantity not in COSTS:
            check_measured(claim.quantity, measures[column], f"{where}: {column}", COSTS)
    check_budgets(claim, rows, budgets, where)


def check_measured(measure: str, known: tuple[str, ...] | None, where: str, costs: tuple[str, ...]) -> None:
    """Raise if a column does not measure ``measure``; ``known`` is None where that is unknown without the data."""
    if known is None:
        with located(where):
            parse_measure(measure)
    else:
        check_known(measure, (*known, *costs), f"{where}: {measure!r} is not measured there")


@contextmanager
def located(where: str) -> Iterator[None]:
    """Put ``where`` before the message of an error."""
    try:
        yield
    except LearnedSparseError as error:
        raise LearnedSparseError(f"{where}: {error}") from error


def check_known(name: str, known: Iterable[str], message: str) -> None:
    """Raise with ``message`` and a suggestion if ``name`` is not one of ``known``."""
    if name not in known:
        raise LearnedSparseError(f"{message}{did_you_mean(name, known)}")
