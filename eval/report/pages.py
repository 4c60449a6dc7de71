"""The pages of a leaderboard, README.md and index.html, from the templates beside this module."""

from __future__ import annotations

import base64
import csv
import dataclasses
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from eval.measures import SIGNIFICANT, write_texts
from eval.report.figures import NAMES, figures, titles
from eval.report.results import (
    COSTS,
    VERDICTS,
    Results,
    difference,
    interval,
    mark,
    p_value,
    published_difference,
    signed,
    size,
    summary,
    verdict,
)
from learned_sparse.core.files import atomic_write

_FOLDER = Path(__file__).parent
_SCRIPTS = ("report.js", "report_table.js", "report_charts.js", "report_plots.js")
_QUERIES = "queries"
"""Folder of ``query_files``."""
_STATUSES = {"done": "done", "failed": "failed", "absent": "not run", "published": "published"}
"""Statuses that are counted; a cell with any other status is left out by the matrix."""


def page(title: str, body: str, *, style: str = "", script: str = "", data: object = None, beside: bool = False) -> str:
    """A self-contained HTML page: ``body`` is HTML, ``title`` plain text, ``style`` follows the shared CSS.

    ``script`` reads ``data`` (JSON values) with ``JSON.parse(document.getElementById("data").textContent)``. The
    Content-Security-Policy allows this style, this script and ``data:`` images only, so ``body`` can have no
    ``style="..."`` and no ``onclick="..."`` attributes. ``beside``: it also allows scripts in files beside the page,
    which a page that is opened from disk can load where it cannot fetch. Raises ValueError if the style or the script
    ends its element.
    """
    style = _static("page.css") + style
    if re.search("</(style|script)|<!--", style + script, re.IGNORECASE):
        raise ValueError("style or script: holds </style, </script or <!--, which ends or comments out its element")
    return _render(
        "page.html.j2",
        title=title,
        body=Markup(body),  # noqa: S704  (rendered with autoescape by the caller)
        style=Markup(style),  # noqa: S704  (our own files)
        script=Markup(script),  # noqa: S704  (our own files)
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=data,
        beside=beside,
    )


def write_report(folder: Path) -> list[Path]:
    """Write the report of the results in ``folder`` to the same folder; equal results give equal files.

    The pages are written before the figures, so that only the figures are missing without matplotlib. Figures of
    an earlier report that these results do not have are removed.
    """
    results = Results.load(folder)
    shown = {f"{name}.svg": title for name, title in titles(results).items()}
    pages = {"README.md": markdown(results, shown), "index.html": html(results), "cells.csv": cells_csv(results)}
    pages |= query_files(results)
    write_texts(folder, pages)
    for script in (folder / _QUERIES).glob("*.js"):
        if f"{_QUERIES}/{script.name}" not in pages:
            script.unlink()
    drawn = figures(results)
    for stale in set(NAMES) - set(drawn):
        (folder / stale).unlink(missing_ok=True)
    for name, content in drawn.items():
        with atomic_write(folder / name) as file:
            file.write(content)
    return [folder / name for name in (*pages, *drawn)]


def html(results: Results) -> str:
    """The leaderboard as one HTML page, with the values of every query in the main measure of each column.

    Those in other measures are in ``query_files``, which the page loads when a measure is chosen.
    """
    body = _render("leaderboard.html.j2", **_context(results))
    script = "\n".join(_static(name) for name in _SCRIPTS)
    return page(
        results.content["title"],
        body,
        style=_static("report.css"),
        script=f'"use strict";\n{{\n{script}}}\n',
        data=page_data(results),
        beside=True,
    )


def query_files(results: Results) -> dict[str, str]:
    """Scripts with the values of every query in one measure of one column, for all but the main measure."""
    return {
        file: f"queryValues({number},{_json(key)},{_json(_queries(results, column['name'], key))});"
        for number, column in enumerate(results.columns)
        for key, file in _query_files(results, number).items()
    }


def markdown(results: Results, figure_titles: Mapping[str, str]) -> str:
    """The leaderboard as Markdown; ``figure_titles`` maps the file names of figures to titles."""
    return _render("leaderboard.md.j2", **_context(results), figures=figure_titles)


def cells_csv(results: Results) -> str:
    """One line per cell: row, column, status, then every measure and cost; an unknown value is an empty field."""
    quantities = [*results.measures(), *COSTS]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["row", "column", "status", *(quantity.key for quantity in quantities)])
    for cell in results.content["cells"]:
        values = (results.value(cell["row"], cell["column"], quantity) for quantity in quantities)
        writer.writerow([cell["row"], cell["column"], cell["status"], *values])
    return buffer.getvalue()


def page_data(results: Results) -> dict[str, Any]:
    """Data of the script: rows and columns by number, cells, and the queries of each column.

    ``queries[column]``: ``ids``, ``values[measure][row]`` as a list, or null for a row without values, and the
    ``files`` of other measures.
    """
    return {
        "baseline": results.content["baseline"],
        "verdicts": {word: verdict(word) for word in VERDICTS},
        "rows": [{key: row.get(key) for key in ("name", "kind", "source", "curve", "note")} for row in results.rows],
        "columns": [
            {"name": column["name"], "quantities": [dataclasses.asdict(one) for one in results.quantities(column)]}
            for column in results.columns
        ],
        "cells": [[results.cell(row["name"], column["name"]) for column in results.columns] for row in results.rows],
        "queries": [_query_data(results, number) for number in range(len(results.columns))],
    }


def one_line(text: object) -> str:
    """Text with a space in place of each line break and control character."""
    return "".join(character if character.isprintable() else " " for character in str(text))


def plain(text: object) -> str:
    r"""Text on one line with Markdown's and HTML's special characters escaped.

    >>> print(plain("a <b> `c`"))
    a &lt;b&gt; \`c\`
    """
    text = re.sub(r"([\\`*\[\]|])", r"\\\1", one_line(text))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(text: str) -> str:
    """Text as Markdown code, between more backticks than the text has in a row."""
    text = one_line(text)
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"`{text}`" if ticks == "`" else f"{ticks} {text} {ticks}"


def facts(results: Results) -> list[str]:
    """The verdict on each paper's first claim, the size of the matrix, and counts by outcome."""
    cells = results.content["cells"]
    published = {row["name"] for row in results.rows if row["kind"] == "published"}
    statuses = Counter(cell["status"] for cell in cells if cell["status"] != "absent" or cell["row"] not in published)
    expected = Counter(word for cell in cells for word in (cell.get("verdicts") or {}).values())
    lines = [
        f"{paper}: {verdict(claim['verdict'])} ({claim['claim']}, {claim['column']})"
        for paper, claim, _ in results.papers()
    ]
    lines.append(f"{len(results.rows)} rows × {len(results.columns)} columns: {_counts(statuses, _STATUSES)}")
    if expected:
        words = ("equal", "within tolerance", "worse", "better")
        lines.append(f"against expected scores: {_counts(expected, dict(zip(words, words, strict=True)))}")
    return lines


def _context(results: Results) -> dict[str, Any]:
    return {
        "results": results,
        "content": results.content,
        "columns": [(column, results.quantities(column)) for column in results.columns],
        "claims": results.content["claims"],
        "claims_by_paper": results.claims(),
        "failed": [cell for cell in results.content["cells"] if cell["status"] == "failed"],
        "expected": [
            (cell, key, value)
            for cell in results.content["cells"]
            for key, value in (cell.get("expected") or {}).items()
        ],
        "facts": facts(results),
        "summary": summary(results),
    }


def _counts(counts: Mapping[str, int], words: Mapping[str, str]) -> str:
    return ", ".join(f"{counts[key]} {word}" for key, word in words.items() if counts.get(key))


def _query_data(results: Results, number: int) -> dict[str, Any]:
    name, measures = results.columns[number]["name"], _query_measures(results, number)
    main = {key: _queries(results, name, key) for key in measures[:1]}
    return {"ids": _ids(results, name), "values": main, "files": _query_files(results, number)}


def _query_files(results: Results, number: int) -> dict[str, str]:
    """Files of the measures of a column but the main one, relative to the page."""
    return {
        key: f"{_QUERIES}/{number}-{place}.js" for place, key in enumerate(_query_measures(results, number)) if place
    }


def _query_measures(results: Results, number: int) -> list[str]:
    """The measures with values of single queries, the main one first."""
    column = results.columns[number]
    known = {key for measures in results.per_query.get(column["name"], {}).values() for key in measures}
    return [quantity.key for quantity in results.quantities(column) if quantity.key in known]


def _ids(results: Results, column: str) -> list[str]:
    rows = results.per_query.get(column, {}).values()
    return sorted({query for measures in rows for values in measures.values() for query in values})


def _queries(results: Results, column: str, measure: str) -> list[list[float | None] | None]:
    """The values of each row in the order of ``_ids``."""
    ids, rows = _ids(results, column), results.per_query.get(column, {})
    scores = [rows.get(row["name"], {}).get(measure) for row in results.rows]
    return [row and [None if query not in row else round(row[query], 6) for query in ids] for row in scores]  # type: ignore[misc]


def _json(content: object) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _render(template: str, **values: Any) -> str:
    rendered = _templates(escaped=template.endswith(".html.j2")).get_template(template).render(values)
    return re.sub("[\ud800-\udfff]", "\ufffd", rendered)  # half a surrogate pair has no UTF-8


@cache
def _templates(*, escaped: bool) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=escaped,  # noqa: S701  (Markdown is escaped by the filter plain)
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "separators": (",", ":"), "allow_nan": False}
    environment.globals |= {"mark": mark, "verdicts": VERDICTS, "significant": SIGNIFICANT}
    environment.filters |= {
        "one_line": one_line,
        "plain": plain,
        "code": code,
        "verdict": verdict,
        "p_value": p_value,
        "signed": signed,
        "difference": difference,
        "published_difference": published_difference,
        "interval": interval,
        "asked": partial(size, key="asked"),
        "detectable": partial(size, key="detectable"),
    }
    return environment


def _static(name: str) -> str:
    return (_FOLDER / "static" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
