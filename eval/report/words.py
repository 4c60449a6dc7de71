"""What a report says in sentences, on every kind of page alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from eval.measures import SIGNIFICANT
from eval.report.results import Found, Json
from eval.reproduce import stages, threads

_TESTS = {"randomization": "paired randomisation test", "t-test": "paired t-test"}
_CLAIMS = {
    "holds": "hold",
    "does not hold": "do not hold",
    "not significant": "not significant",
    "not measured": "not measured",
}
_CELLS = {"done": "done", "failed": "failed", "absent": "not run", "published": "published"}
"""Other cells are left out by the matrix."""
_EXPECTED = ("equal", "within tolerance", "worse", "better")


def facts(found: Found) -> list[str]:
    """The size of the matrix, and how many cells, claims and expected scores came out which way."""
    published = {row["name"] for row in found.rows if row["kind"] == "published"}
    cells = Counter(
        cell["status"] for cell in found.results["cells"] if cell["status"] != "absent" or cell["row"] not in published
    )
    lines = [
        f"{len(found.rows)} rows × {len(found.columns)} columns: "
        + ", ".join(f"{cells[status]} {said}" for status, said in _CELLS.items() if cells[status])
    ]
    claims = Counter(claim["verdict"] for claim in found.results["claims"])
    if claims:
        lines.append("claims: " + ", ".join(f"{claims[word]} {said}" for word, said in _CLAIMS.items() if claims[word]))
    expected = Counter(word for cell in found.results["cells"] for word in (cell.get("verdicts") or {}).values())
    if expected:
        counted = (f"{expected[word]} {word}" for word in _EXPECTED if expected[word])
        lines.append(f"against expected scores: {', '.join(counted)}")
    return lines


def legend(found: Found) -> list[str]:
    """What the signs in the tables mean, and what must be known before numbers are compared."""
    lines = ["Best of our own rows in bold."]
    if any(row["kind"] == "published" for row in found.rows):
        lines.append("Published rows are frozen: their sources say what they were measured on.")
    baseline = found.results["baseline"]
    if baseline is not None:
        test = _TESTS.get(found.results["test"], found.results["test"])
        lines.append(f"▲ ▼ differ significantly from {baseline} ({test}, p < {SIGNIFICANT} after Holm and Bonferroni).")
    if any(claim["p"] is not None for claim in found.results["claims"]):
        lines.append("Claims are judged one by one: their p is not corrected for how many there are.")
    if any(cell.get("spread") for cell in found.results["cells"]):
        lines.append("± is the standard deviation over trainings with different seeds.")
    lines += [
        f"{column['name']} is cut down to what is relevant and BM25's {column['pool']} best documents for each query: "
        "it compares rows, its scores say nothing about the whole collection."
        for column in found.columns
        if column.get("pool") is not None
    ]
    return lines


def column_facts(column: Json) -> str:
    """Of what a column is made.

    >>> column_facts({"collection": "scifact", "split": "test", "documents": 5183, "queries": 300, "pool": None})
    'scifact, test: 5,183 documents, 300 queries'
    """
    documents = "" if column.get("documents") is None else f"{column['documents']:,} documents, "
    pooled = "" if column.get("pool") is None else f", pool of {column['pool']}"
    queries = f"{column['queries']:,} queries" if column.get("queries") else "not run"
    return f"{column['collection']}, {column['split']}{pooled}: {documents}{queries}"


def trained(row: Json) -> str:
    """The training budget of a row in words, empty where nothing was trained."""
    given: Mapping[str, Any] | None = row.get("training")
    if not given:
        return ""
    seeds = row.get("seeds") or []
    times = f"; {len(seeds)} trainings (seeds {', '.join(map(str, seeds))})" if len(seeds) > 1 else ""
    return (
        f"{stages(given)}; {given['seconds'] / 60:.1f} minutes on {given['processor']} ({threads(given)}); "
        f"{given['layers']} layers of {given['backbone']}, documents cut at {_longest(given)} tokens{times}"
    )


def kind(row: Json) -> str:
    """What a row is: its kind, and the source of a published one."""
    return f"{row['kind']}: {row['source']}" if row.get("source") else str(row["kind"])


def _longest(given: Mapping[str, Any]) -> Any:
    length = given["max_length"]
    return length["document"] if isinstance(length, Mapping) else length
