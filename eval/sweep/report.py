"""What a sweep found: as a table, as JSON, and as line charts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.costs import Sparsity
from eval.measures import Cell, Column, format_table
from eval.report import Axis, line_chart
from eval.sweep.variants import spelled


@dataclass(frozen=True, kw_only=True)
class Row:
    """What came of one combination of settings."""

    changes: Mapping[str, Any]
    own: bool
    """Whether these are the checkpoint's own settings."""
    scores: Mapping[str, float]
    sparsity: Sparsity
    quantizers: Mapping[str, Mapping[str, Any]]
    """``{"document": {"scale", "bits"}, "query": ...}``"""


def sweep_table(rows: Sequence[Row], *, markdown: bool = False) -> str:
    """One row a combination: settings, measures, FLOPS, terms per text; a star marks the checkpoint's own settings."""
    keys = list(rows[0].changes)
    columns = [
        *(Column(key) for key in keys),
        *(Column(measure, best="highest") for measure in rows[0].scores),
        *(Column("FLOPS", best="lowest"), Column("terms/document", 1), Column("terms/query", 1), Column("own")),
    ]
    cells: list[list[Cell]] = []
    for row in rows:
        found = row.sparsity
        measured: list[Cell] = [*row.scores.values(), found.flops, found.documents.mean, found.queries.mean]
        cells.append([*(spelled(row.changes[key]) for key in keys), *measured, "*" if row.own else ""])
    return format_table(columns, cells, markdown=markdown)


def sweep_charts(rows: Sequence[Row]) -> dict[str, str]:
    """``{measure: SVG}``, the setting with the most values from left to right, a line for each value of the other.

    Values stand at equal distances, in the order given. None where not one or two settings vary.
    """
    values = {key: _distinct(row.changes[key] for row in rows) for key in rows[0].changes}
    varying = sorted((key for key in values if len(values[key]) > 1), key=lambda key: -len(values[key]))
    if not 1 <= len(varying) <= 2:
        return {}
    across, other = varying[0], varying[1] if len(varying) == 2 else None
    charts = {}
    for measure in rows[0].scores:
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in rows:
            name = measure if other is None else f"{other} = {spelled(row.changes[other])}"
            place = values[across].index(spelled(row.changes[across]))
            lines.setdefault(name, []).append((place, row.scores[measure]))
        charts[measure] = line_chart(measure, lines, Axis(across, names=tuple(values[across])), Axis(measure))
    return charts


def row_as_json(row: Row) -> dict[str, Any]:
    """As JSON values."""
    return {
        "settings": dict(row.changes),
        "own": row.own,
        "scores": dict(row.scores),
        "flops": row.sparsity.flops,
        "documents": dataclasses.asdict(row.sparsity.documents),
        "queries": dataclasses.asdict(row.sparsity.queries),
        "quantizers": {side: dict(content) for side, content in row.quantizers.items()},
    }


def _distinct(values: Any) -> list[str]:
    return list(dict.fromkeys(map(spelled, values)))
