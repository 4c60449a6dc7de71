"""The table of rows × columns × measures and costs, as HTML."""

from __future__ import annotations

from eval.report.elements import pill, scrolling, tag
from eval.report.quantities import Quantity, mark
from eval.report.results import Found, Json
from learned_sparse.core import escape

_SAID = {"▲": "significantly better than the baseline", "▼": "significantly worse than the baseline"}


def scores(found: Found) -> str:
    """Everything at once: a script hides what is not asked for, and sorts."""
    columns = [(number, column, found.quantities(column)) for number, column in enumerate(found.columns)]
    groups = [
        tag("th", escape(column["name"]), scope="colgroup", colspan=str(len(quantities)), data_c=str(number))
        for number, column, quantities in columns
    ]
    headings = [
        tag("th", _button(quantity.heading), scope="col", class_="number", **_at(c, quantity))
        for c, _, quantities in columns
        for quantity in quantities
    ]
    corner = tag("th", _button("Row"), scope="col", rowspan="2", class_="name")
    body = [_row(found, number, row) for number, row in enumerate(found.rows)]
    head = tag("thead", tag("tr", corner, *groups), tag("tr", *headings))
    return scrolling(tag("table", head, tag("tbody", *body), id="table"), "Scores")


def _row(found: Found, number: int, row: Json) -> str:
    published = row["kind"] == "published"
    about = [f"published: {row['source']}"] if published else []
    about += ["baseline"] if row["name"] == found.results["baseline"] else []
    small = tag("small", escape(", ".join(about))) if about else ""
    name = tag("th", tag("span", escape(row["name"])), small, scope="row", class_="name")
    cells = [
        _cell(found, row, column, c, quantity)
        for c, column in enumerate(found.columns)
        for quantity in found.quantities(column)
    ]
    return tag("tr", name, *cells, data_r=str(number), class_="published" if published else None)


def _cell(found: Found, row: Json, column: Json, c: int, quantity: Quantity) -> str:
    cell, value = found.cell(row["name"], column["name"]), found.value(row["name"], column["name"], quantity)
    if value is None:
        failed = cell["status"] == "failed" and not quantity.cost
        content = tag("span", "✗ failed", class_="pill bad") if failed else tag("span", "–", class_="soft")
        return tag("td", content, class_="number", **_at(c, quantity))
    best = quantity.show(value) == found.best(column["name"], quantity) and row["kind"] != "published"
    content = tag("b" if best else "span", escape(quantity.show(value)))
    if not quantity.cost:
        content += _signs(cell, quantity)
    return tag("td", content, class_="number", data_v=repr(value), **_at(c, quantity))


def _signs(cell: Json, quantity: Quantity) -> str:
    sign = mark(cell, quantity.key)
    said = {"class_": "mark", "role": "img", "title": _SAID[sign], "aria_label": _SAID[sign]} if sign else {}
    parts = [tag("span", sign, **said) if sign else tag("span", class_="mark")]
    spread = (cell.get("spread") or {}).get(quantity.key)
    if spread is not None:
        parts.append(tag("small", escape(f"± {quantity.show(spread)}")))
    word = (cell.get("verdicts") or {}).get(quantity.key)
    if word is not None:
        parts.append(tag("small", pill(word)))
    return "".join(parts)


def _button(text: str) -> str:
    return tag("button", escape(text), type="button")


def _at(column: int, quantity: Quantity) -> dict[str, str]:
    return {"data_c": str(column), "data_k": quantity.key}
