"""``python -m eval.sweep``: a leaderboard of one model under every combination of settings that can be changed."""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eval.reproduce import __main__ as reproduce
from eval.reproduce.matrix import Row, expanded_of
from eval.reproduce.plan import plan_cell
from eval.runs import add_column_options
from learned_sparse.collections.collection import data_root
from learned_sparse.core.encoder import load_encoder
from learned_sparse.core.errors import run_main
from learned_sparse.core.settings import CommandParser, parse_changes

EPILOG = """\
Each combination is a row of a leaderboard (eval.reproduce), so the same command goes on after it was ended. Documents
are encoded and indexed once for all combinations that differ only in settings of queries. All settings are checked
before any document is encoded. Settings that the checkpoint has itself are marked by a star.

examples:
  python -m eval.sweep demo:spade --split dev --set alpha=0,0.25,0.5,0.75,1 --set k=5,10
  python -m eval.sweep mine.yaml:uhd-bert --column mine --set query_k=50,100,200,null --output DIR
"""


def main(argv: list[str] | None = None) -> int:
    """Measure every combination, and write and print the leaderboard."""
    options = _parser().parse_args(argv)
    matrix, cell = plan_cell(options.cell, options.column, options.data)
    row, column, checkpoint = matrix.rows[cell.row], matrix.columns[cell.column], str(cell.run.checkpoint)
    column = dataclasses.replace(column, split=options.split or column.split)
    encoder = load_encoder(checkpoint, "document", weights=False)
    stored, rows = encoder.description.get("settings", {}), dict[str, Row]()
    of = expanded_of(matrix, row)
    row = dataclasses.replace(
        row, recipe="", model="", changes=(), seeds=(), columns=(), expected={}, checkpoint=checkpoint,
        expanded=of.expanded, expansion=of.expansion,
    )  # fmt: skip
    for changes in combinations(read_settings(options.set)):
        load_encoder(checkpoint, "query", settings=changes, weights=False)  # refuses settings that cannot be changed
        of_queries = {key: value for key, value in changes.items() if key in encoder.query_only_settings}
        of_both = {key: value for key, value in changes.items() if key not in of_queries}
        name = ", ".join(f"{key}={format_value(value)}" for key, value in changes.items())
        star = " *" if all(stored.get(key) == value for key, value in changes.items()) else ""
        rows[name + star] = dataclasses.replace(row, encode=row.encode | of_both, queries=row.queries | of_queries)
    swept = dataclasses.replace(
        matrix, title=f"Settings of {cell.row}", about="", columns={cell.column: column}, rows=rows, averages={},
        baseline=None, claims=(), plain_names=False,
    )  # fmt: skip
    how = reproduce.parser().parse_args(["--matrix", "sweep", "--in-process", *(["--drop"] if options.drop else [])])
    typed = [word for change in options.set for word in ("--set", change)]
    command = f"python -m eval.sweep {shlex.join([options.cell, *typed])}"
    return reproduce.run_matrix(swept, "sweep", options.data or data_root(), options.output, how, command=command)


def read_settings(arguments: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """``{setting: values}`` of arguments ``KEY=VALUE,VALUE,...``; values are YAML, so lists have brackets.

    >>> read_settings(["k=2,5,null", "layers=[2, 4],[12]", "normalize=bucket,none"])
    {'k': (2, 5, None), 'layers': ([2, 4], [12]), 'normalize': ('bucket', 'none')}
    """
    parts = ((key.strip(), text.strip()) for key, _, text in (argument.partition("=") for argument in arguments))
    changes = parse_changes([f"{key}={text and f'[{text}]'}" for key, text in parts])
    return {key: tuple(values) for key, values in changes.items()}


def combinations(settings: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All combinations of one value per setting; the last setting changes fastest.

    >>> combinations({"alpha": (0, 1), "k": (2, 5)})
    [{'alpha': 0, 'k': 2}, {'alpha': 0, 'k': 5}, {'alpha': 1, 'k': 2}, {'alpha': 1, 'k': 5}]
    """
    return [dict(zip(settings, values, strict=True)) for values in itertools.product(*settings.values())]


def format_value(value: Any) -> str:
    """A value as text for names of rows.

    >>> format_value(0.5), format_value(None), format_value([2, 4]), format_value(True)
    ('0.5', 'none', '2 4', 'true')
    """
    if isinstance(value, list | tuple):
        return " ".join(map(format_value, value)) or "nothing"
    return str(value).lower()


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m eval.sweep", description=main.__doc__, epilog=EPILOG)
    add = parser.add_argument
    add("cell", metavar="MATRIX:ROW", help="row of a leaderboard, whose model eval.reproduce has trained")
    add_column_options(parser)
    add("--split", help="another split of the column's collection, such as dev")
    add("--set", action="append", required=True, metavar="KEY=V,V,...", help="a setting and its values; repeatable")
    add("--output", type=Path, default=Path("results", "sweep"), metavar="DIR", help="default: %(default)s")
    add("--drop", action="store_true", help="lose the combinations that an earlier sweep wrote to the folder")
    return parser


if __name__ == "__main__":
    run_main(main, "the same command goes on with the steps that are left")
