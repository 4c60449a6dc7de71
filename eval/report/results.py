"""What a finished matrix found, read from ``results.json`` and ``per_query.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from eval.report.quantities import COSTS, Quantity, measure
from learned_sparse.core import LearnedSparseError, read_json

Json = Mapping[str, Any]
PerQuery = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
"""Column → row → measure → query → value."""

_KEYS = ("title", "about", "command", "versions", "processor", "baseline", "test", "columns", "rows", "cells", "claims")


@dataclass(frozen=True, kw_only=True)
class Found:
    """Both files, with what the pages ask of them."""

    results: Json
    per_query: PerQuery

    @classmethod
    def load(cls, folder: Path) -> Found:
        """Of a folder that ``python -m eval.reproduce`` has written."""
        path = folder / "results.json"
        results = read_json(path)
        missing = [key for key in _KEYS if not isinstance(results, dict) or key not in results]
        if missing:
            raise LearnedSparseError(f"{path}: no {missing[0]!r}; it is not what python -m eval.reproduce writes")
        return cls(results=results, per_query=read_json(folder / "per_query.json"))

    @property
    def rows(self) -> Sequence[Json]:
        """In the order of the matrix."""
        rows: Sequence[Json] = self.results["rows"]
        return rows

    @property
    def columns(self) -> Sequence[Json]:
        """In the order of the matrix."""
        columns: Sequence[Json] = self.results["columns"]
        return columns

    def cell(self, row: str, column: str) -> Json:
        """What a row got in a column; what is in no file is absent."""
        return self._cells.get((row, column), {"row": row, "column": column, "status": "absent", "scores": {}})

    def quantities(self, column: Json) -> list[Quantity]:
        """The measures of a column, more that published rows have, and the costs that any of its cells has."""
        names = [row["name"] for row in self.rows]
        known = [cost for cost in COSTS if any(self.value(name, column["name"], cost) is not None for name in names)]
        costs = {cost.key for cost in COSTS}
        scored = [key for name in names for key in self.cell(name, column["name"])["scores"] if key not in costs]
        return [*map(measure, dict.fromkeys([*column["measures"], *scored])), *known]

    def value(self, row: str, column: str, quantity: Quantity) -> float | None:
        """Of one cell, None where it is not known. Published rows have their costs among their scores."""
        cell = self.cell(row, column)
        costs = (cell.get("costs") or {}) if quantity.cost else {}
        found: float | None = costs.get(quantity.key)
        return cell["scores"].get(quantity.key) if found is None else found

    def best(self, column: str, quantity: Quantity) -> str | None:
        """The best of our own numbers, as it is shown; published rows do not take part."""
        ours = [row["name"] for row in self.rows if row["kind"] != "published"]
        return quantity.best_of([self.value(row, column, quantity) for row in ours])

    def claims(self) -> dict[tuple[str, str], dict[str, Json]]:
        """Of each claim and its source, what was found on each column."""
        claims: dict[tuple[str, str], dict[str, Json]] = {}
        for claim in self.results["claims"]:
            claims.setdefault((claim["claim"], claim["source"]), {})[claim["column"]] = claim
        return claims

    @cached_property
    def _cells(self) -> dict[tuple[str, str], Json]:
        return {(cell["row"], cell["column"]): cell for cell in self.results["cells"]}
