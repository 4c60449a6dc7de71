"""The pages of a leaderboard, README.md and index.html, from the templates beside this module."""

from __future__ import annotations

import base64
import csv
import dataclasses
import hashlib
import io
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from eval.measures import SIGNIFICANT, write_texts
from eval.report.figures import NAMES, figures, titles
from eval.report.results import COSTS, VERDICTS, Results, mark, p_value, signed, summary, verdict
from learned_sparse.core import atomic_write

_FOLDER = Path(__file__).parent
_SCRIPTS = ("report.js", "report_table.js", "report_charts.js", "report_plots.js")
_STATUSES = {"done": "done", "failed": "failed", "absent": "not run", "published": "published"}
"""Statuses that are counted; a cell with any other status is left out by the matrix."""


def page(title: str, body: str, *, style: str = "", script: str = "", data: object = None) -> str:
    """A self-contained HTML page: ``body`` is HTML, ``title`` plain text, ``style`` follows the shared CSS.

    ``script`` reads ``data`` (JSON values) with ``JSON.parse(document.getElementById("data").textContent)``. The
    Content-Security-Policy allows this style, this script and ``data:`` images only, so ``body`` can have no
    ``style="..."`` and no ``onclick="..."`` attributes. Raises ValueError if the style or the script ends its element.
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
    )


def write_report(folder: Path) -> list[Path]:
    """Write the report of the results in ``folder`` to the same folder; equal results give equal files.

    The pages are written before the figures, so that only the figures are missing without matplotlib. Figures of
    an earlier report that these results do not have are removed.
    """
    results = Results.load(folder)
    shown = {f"{name}.svg": title for name, title in titles(results).items()}
    pages = {"README.md": markdown(results, shown), "index.html": html(results), "cells.csv": cells_csv(results)}
    write_texts(folder, pages)
    drawn = figures(results)
    for stale in set(NAMES) - set(drawn):
        (folder / stale).unlink(missing_ok=True)
    for name, content in drawn.items():
        with atomic_write(folder / name) as file:
            file.write(content)
    return [folder / name for name in (*pages, *drawn)]


def html(results: Results) -> str:
    """The leaderboard as one HTML page, with the values of every query."""
    body = _render("leaderboard.html.j2", **_context(results))
    script = "\n".join(_static(name) for name in _SCRIPTS)
    return page(
        results.content["title"],
        body,
        style=_static("report.css"),
        script=f'"use strict";\n{{\n{script}}}\n',
        data=page_data(results),
    )


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
    """Data of the script: rows and columns by number, cells, and ``queries[column]["rows"][row][measure]`` as lists."""
    return {
        "baseline": results.content["baseline"],
        "verdicts": {word: verdict(word) for word in VERDICTS},
        "rows": [{key: row.get(key) for key in ("name", "kind", "source", "curve", "note")} for row in results.rows],
        "columns": [
            {"name": column["name"], "quantities": [dataclasses.asdict(one) for one in results.quantities(column)]}
            for column in results.columns
        ],
        "cells": [[results.cell(row["name"], column["name"]) for column in results.columns] for row in results.rows],
        "queries": [_queries(results, column["name"]) for column in results.columns],
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
    """Size of the matrix, and counts of cells and of comparisons with expected scores by outcome."""
    cells = results.content["cells"]
    published = {row["name"] for row in results.rows if row["kind"] == "published"}
    statuses = Counter(cell["status"] for cell in cells if cell["status"] != "absent" or cell["row"] not in published)
    expected = Counter(word for cell in cells for word in (cell.get("verdicts") or {}).values())
    lines = [f"{len(results.rows)} rows × {len(results.columns)} columns: {_counts(statuses, _STATUSES)}"]
    if expected:
        words = ("equal", "within tolerance", "worse", "better")
        lines.append(f"against expected scores: {_counts(expected, dict(zip(words, words, strict=True)))}")
    return lines


def _context(results: Results) -> dict[str, Any]:
    claims = results.claims()
    return {
        "results": results,
        "content": results.content,
        "columns": [(column, results.quantities(column)) for column in results.columns],
        "claims": claims,
        "claimed_columns": list(dict.fromkeys(column for verdicts in claims.values() for column in verdicts)),
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


def _queries(results: Results, column: str) -> dict[str, Any]:
    """All query ids of a column, and the values of each row and measure in that order."""
    rows = results.per_query.get(column, {})
    ids = sorted({query for measures in rows.values() for values in measures.values() for query in values})
    values = [
        {
            measure: [None if query not in scores else round(scores[query], 6) for query in ids]
            for measure, scores in rows.get(row["name"], {}).items()
        }
        for row in results.rows
    ]
    return {"ids": ids, "rows": values}


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
    }
    return environment


def _static(name: str) -> str:
    return (_FOLDER / "static" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
