"""A leaderboard as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from eval.measures import Cell, Column, format_table
from eval.report.quantities import Quantity, chance, mark, signed, verdict
from eval.report.results import Found, Json
from eval.report.words import column_facts, facts, kind, legend, trained


def markdown(found: Found, figures: Mapping[str, str]) -> str:
    """The whole page; ``figures`` are titles by file name."""
    results = found.results
    lines = [f"# {plain(results['title'])}", ""]
    lines += [plain(results["about"]), ""] if results["about"] else []
    lines += [f"Written by {code(results['command'])}; {plain(results['processor'])}.", "Sortable, with the commands"]
    lines[-1] += " behind each number and every query: [index.html](index.html)."
    lines += ["", *(f"- {plain(line)}" for line in facts(found)), ""]
    lines += [f"![{plain(title)}]({name})" for name, title in figures.items()]
    for quantity in _measures(found):
        lines += ["", f"## {plain(quantity.heading)}", "", *_scores(found, quantity)]
    lines += ["", *map(plain, legend(found))]
    sections = (("Costs", _costs), ("Claims", _claims), ("Expected scores", _expected), ("Failed", _failed))
    for heading, section in (*sections, ("Rows", _rows), ("Columns", _columns)):
        body = section(found)
        lines += ["", f"## {heading}", "", *body] if body else []
    versions = [f"- {plain(name)} {plain(str(version))}" for name, version in results["versions"].items()]
    files = "All numbers: [results.json](results.json); of each query: [per_query.json](per_query.json)."
    return "\n".join([*lines, "", "## Versions", "", *versions, "", files])


def plain(text: str) -> str:
    r"""Text that Markdown shows as it is, on one line.

    >>> print(plain("a <b> `c`"))
    a &lt;b&gt; \`c\`
    """
    text = "".join(character if character.isprintable() else " " for character in text)
    text = re.sub(r"([\\`*\[\]])", r"\\\1", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(text: str) -> str:
    """Text between as many backticks as it takes."""
    text = "".join(character if character.isprintable() else " " for character in text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"`{text}`" if ticks == "`" else f"{ticks} {text} {ticks}"


def _measures(found: Found) -> list[Quantity]:
    every = [quantity for column in found.columns for quantity in found.quantities(column) if not quantity.cost]
    return list(dict.fromkeys(every))


def _scores(found: Found, quantity: Quantity) -> list[str]:
    columns = [column["name"] for column in found.columns if quantity in found.quantities(column)]
    best = {column: found.best(column, quantity) for column in columns}
    rows: list[Sequence[Cell]] = [
        [_name(found, row), *(_score(found, row["name"], column, quantity, best[column]) for column in columns)]
        for row in found.rows
    ]
    return [_table([Column("row"), *(Column(plain(column), right=True) for column in columns)], rows)]


def _score(found: Found, row: str, column: str, quantity: Quantity, best: str | None) -> str:
    cell, value = found.cell(row, column), found.value(row, column, quantity)
    if value is None:
        return "failed" if cell["status"] == "failed" else "–"
    shown = quantity.show(value)
    bold = f"**{shown}**" if shown == best and cell["status"] != "published" else shown
    spread = (cell.get("spread") or {}).get(quantity.key)
    return f"{bold}{'' if spread is None else f' ± {quantity.show(spread)}'}{mark(cell, quantity.key)}"


def _costs(found: Found) -> list[str]:
    lines: list[str] = []
    for column in found.columns:
        costs = [quantity for quantity in found.quantities(column) if quantity.cost]
        rows = [[found.value(row["name"], column["name"], cost) for cost in costs] for row in found.rows]
        best = [found.best(column["name"], cost) for cost in costs]
        shown: list[Sequence[Cell]] = [
            [_name(found, row), *(_bold(cost.show(v), top) for cost, v, top in zip(costs, values, best, strict=True))]
            for row, values in zip(found.rows, rows, strict=True)
            if any(value is not None for value in values)
        ]
        if shown:
            headings = [Column("row"), *(Column(cost.heading, right=True) for cost in costs)]
            lines += [f"### {plain(column['name'])}", "", _table(headings, shown), ""]
    return lines[:-1]


def _bold(text: str, best: str | None) -> str:
    return f"**{text}**" if text == best else text


def _claims(found: Found) -> list[str]:
    """A line for each claim, a column for each place where it was held against our numbers."""
    claims = found.claims()
    columns = list(dict.fromkeys(column for places in claims.values() for column in places))
    rows: list[Sequence[Cell]] = [
        [plain(claim), plain(source), *(_judged(places.get(column)) for column in columns)]
        for (claim, source), places in claims.items()
    ]
    return [_table(["claim", "source", *map(plain, columns)], rows)] if rows else []


def _judged(claim: Json | None) -> str:
    if claim is None:
        return ""
    difference = "" if claim["difference"] is None else f", {signed(claim['difference'])}"
    p = "" if claim["p"] is None else f", p {plain(chance(claim['p']))}"
    return f"{verdict(claim['verdict'])}{difference}{p}"


def _expected(found: Found) -> list[str]:
    rows: list[Sequence[Cell]] = [
        [plain(cell["row"]), plain(cell["column"]), plain(key), value, cell["scores"].get(key), _said(cell, key)]
        for cell in found.results["cells"]
        for key, value in (cell.get("expected") or {}).items()
    ]
    return [_table(["row", "column", "measure", "expected", "found", "verdict"], rows)] if rows else []


def _said(cell: Json, key: str) -> str:
    word = (cell.get("verdicts") or {}).get(key)
    return "–" if word is None else verdict(word)


def _failed(found: Found) -> list[str]:
    return [
        f"- {plain(cell['row'])}, {plain(cell['column'])}: {plain(cell.get('error') or 'no reason given')}"
        for cell in found.results["cells"]
        if cell["status"] == "failed"
    ]


def _rows(found: Found) -> list[str]:
    rows: list[Sequence[Cell]] = [
        [_name(found, row), plain(kind(row)), plain(row.get("note") or ""), plain(trained(row))] for row in found.rows
    ]
    return [_table(["row", "what it is", "note", "training"], rows)]


def _columns(found: Found) -> list[str]:
    return [f"- {plain(column['name'])}: {plain(column_facts(column))}" for column in found.columns]


def _name(found: Found, row: Json) -> str:
    slanted = "*" if row["kind"] == "published" else ""
    return f"{slanted}{plain(row['name'])}{slanted}{' (baseline)' if row['name'] == found.results['baseline'] else ''}"


def _table(columns: Sequence[Column | str], rows: Sequence[Sequence[Cell]]) -> str:
    return format_table(columns, rows, markdown=True)
