"""A sweep: a leaderboard of one model under every combination of settings that can be changed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from typing import Any

from eval.reproduce.matrix import Matrix, Row, expanded_of
from eval.reproduce.plan import CellPlan, set_words
from learned_sparse.core.encoder import load_encoder
from learned_sparse.core.settings import parse_changes


def swept(matrix: Matrix, cell: CellPlan, arguments: Iterable[str], split: str | None) -> Matrix:
    """The combinations of ``arguments`` ``KEY=V,V`` as rows in place of the row of ``cell``, on its column.

    Rows that differ only in settings of queries share their documents. Settings that cannot be changed are refused, and
    a star marks those that the checkpoint has itself.
    """
    row, column, checkpoint = matrix.rows[cell.row], matrix.columns[cell.column], str(cell.run.checkpoint)
    read = expanded_of(matrix, row)
    row = dataclasses.replace(
        row, recipe="", model="", changes=(), seeds=(), columns=(), expected={}, checkpoint=checkpoint,
        expanded=read.expanded, expansion=read.expansion,
    )  # fmt: skip
    encoder = load_encoder(checkpoint, "document", weights=False)
    stored, settings, rows = encoder.description.get("settings", {}), read_settings(arguments), dict[str, Row]()
    for values in itertools.product(*settings.values()):
        changes = dict(zip(settings, values, strict=True))  # the last setting changes fastest
        load_encoder(checkpoint, "query", settings=changes, weights=False)  # refuses settings that cannot be changed
        of_queries = {key: value for key, value in changes.items() if key in encoder.query_only_settings}
        of_both = {key: value for key, value in changes.items() if key not in of_queries}
        name = ", ".join(set_words(changes)[1::2])
        star = " *" if all(stored.get(key) == value for key, value in changes.items()) else ""
        rows[name + star] = dataclasses.replace(row, encode=row.encode | of_both, queries=row.queries | of_queries)
    columns = {cell.column: dataclasses.replace(column, split=split or column.split, rows=())}
    return Matrix(
        title=f"Settings of {cell.row}", columns=columns, rows=rows, hits=matrix.hits, dtype=matrix.dtype,
        on_bad_line=matrix.on_bad_line,
    )  # fmt: skip


def read_settings(arguments: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """``{setting: values}`` of arguments ``KEY=VALUE,VALUE,...``; values are YAML, so lists have brackets.

    >>> read_settings(["k=2,5,null", "layers=[2, 4],[12]", "normalize=bucket,none"])
    {'k': (2, 5, None), 'layers': ([2, 4], [12]), 'normalize': ('bucket', 'none')}
    """
    parts = ((key.strip(), text.strip()) for key, _, text in (argument.partition("=") for argument in arguments))
    changes = parse_changes([f"{key}={text and f'[{text}]'}" for key, text in parts])
    return {key: tuple(values) for key, values in changes.items()}
