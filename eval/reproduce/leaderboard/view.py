"""The results of a leaderboard as its pages and figures use them: rows, columns, quantities and texts of numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from eval.reproduce.claims import SHOWN_COSTS, Json, Trainings
from eval.stats import SIGNIFICANT, difference

SIGNS = {
    "agrees": "✓ agrees", "disagrees": "✗ disagrees", "inconclusive": "? inconclusive", None: "–", "equal": "= equal",
    "within tolerance": "≈ within tolerance", "worse": "✗ worse", "better": "✗ better",
}  # fmt: skip
"""Text of each verdict on a claim or an expected score."""


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A measure or a cost, and how its values are shown."""

    key: str
    heading: str
    digits: int = 4
    scale: float = 1.0
    """Factor from the stored value to the value shown."""
    cost: bool = True

    def show(self, value: float | None) -> str:
        """Text of a value in a table; a dash for an unknown value."""
        return "–" if value is None else f"{value * self.scale:.{self.digits}f}"


COSTS = tuple(
    Quantity(key=key, heading=heading, digits=digits, scale=1e-6 if key == "index bytes" else 1.0)
    for key, (heading, digits) in SHOWN_COSTS.items()
)


@dataclass(frozen=True, kw_only=True)
class Results:
    """The content of ``results.json``, and the values of queries."""

    content: Json
    trainings: Trainings = field(default_factory=dict)

    @cached_property
    def cells(self) -> dict[tuple[str, str], Json]:
        """All cells by row and column."""
        return {(cell["row"], cell["column"]): cell for cell in self.content["cells"]}

    def value(self, row: str, column: str, quantity: Quantity) -> float | None:
        """Value of one cell, None if unknown. Published rows have their costs among their scores."""
        cell = self.cells.get((row, column), {"scores": {}})
        value: float | None = (cell.get("costs") or {}).get(quantity.key) if quantity.cost else None
        return cell["scores"].get(quantity.key) if value is None else value

    def quantities(self, column: Json) -> list[Quantity]:
        """Measures of the column and of its published scores, then each cost that one of its cells has."""
        names, at = [row["name"] for row in self.content["rows"]], column["name"]
        scored = [key for name in names for key in self.cells.get((name, at), {"scores": {}})["scores"]]
        keys = [key for key in dict.fromkeys([*column["measures"], *scored]) if key not in SHOWN_COSTS]
        known = [cost for cost in COSTS if any(self.value(name, at, cost) is not None for name in names)]
        return [*(Quantity(key=key, heading=key, cost=False) for key in keys), *known]

    def best(self, column: str, quantity: Quantity) -> str | None:
        """Text of the best value of a measure; published rows and upper bounds do not compete. None for one value."""
        ours = [row["name"] for row in self.content["rows"] if row["kind"] not in {"published", "best_of"}]
        known = [value for row in ours if (value := self.value(row, column, quantity)) is not None]
        return quantity.show(max(known)) if len(known) > 1 and not quantity.cost else None

    def measured(self) -> Json | None:
        """The first column with a measure that a row has."""
        for column in self.content["columns"]:
            for first in self.quantities(column)[:1]:
                values = [self.value(row["name"], column["name"], first) for row in self.content["rows"]]
                if not first.cost and values.count(None) < len(values):
                    found: Json = column
                    return found
        return None

    def interval(self, row: str, column: str, quantity: Quantity) -> tuple[float, float] | None:
        """95 % interval of a mean over trainings and queries; None if published, or of a single query."""
        trainings = self.trainings.get((row, column), ())
        queries = trainings[0].get(quantity.key, {}) if trainings else {}
        if len(queries) < 2:
            return None
        return difference(trainings, [{quantity.key: dict.fromkeys(queries, 0.0)}], quantity.key).interval

    def gain(self, row: str, column: str, quantity: Quantity) -> str:
        """The difference from the baseline with its 95 % interval as text; empty without."""
        base = self.content["baseline"]
        ours, theirs = self.trainings.get((row, column)), self.trainings.get((base, column))
        if row == base or not ours or not theirs or quantity.key not in theirs[0]:
            return ""
        estimate = difference(ours, theirs, quantity.key)
        low, high = estimate.interval
        return f"{signed(estimate.value)} ({signed(low)} to {signed(high)})"


def mark(cell: Json, key: str) -> str:
    """▲ or ▼ if a cell differs significantly from the baseline."""
    p, gain = (cell.get("p") or {}).get(key), (cell.get("difference") or {}).get(key)
    return "" if p is None or not gain or p >= SIGNIFICANT else "▲" if gain > 0 else "▼"


def p_value(p: float) -> str:
    """Text of a p-value.

    >>> p_value(0.00005), p_value(0.0312)
    ('p < 0.001', 'p 0.031')
    """
    return "p < 0.001" if p < 0.001 else f"p {p:.3f}"


def amount(claim: Json, value: float | None) -> str:
    """A difference of a claim as text: of costs in percent, with a decimal below 10 %.

    >>> amount({"relative": True}, -0.881), amount({"relative": False}, 0.01)
    ('−88 %', '+0.0100')
    """
    if value is None or not claim["relative"]:
        return signed(value)
    return f"{100 * value:+.{0 if abs(value) >= 0.0995 else 1}f} %".replace("-", "−")


def signed(value: float | None) -> str:
    """Text of a difference of measures or costs, with about four significant digits and a minus sign (U+2212).

    >>> signed(0.01234), signed(-12.5), signed(-2_345_678.9), signed(None)
    ('+0.0123', '−12.5', '−2,345,679', '–')
    """
    if value is None:
        return "–"
    digits = 4 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:+,.{digits}f}".replace("-", "−")
