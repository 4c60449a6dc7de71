"""Small tables of results, as plain text or Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A heading, and how the numbers below it are shown: ``digits`` after the point, and which of them is the best.

    ``right``: aligned there even where numbers come as text.
    """

    heading: str
    digits: int = 4
    best: Literal["highest", "lowest"] | None = None
    right: bool = False


def format_table(columns: Sequence[Column | str], rows: Sequence[Sequence[Cell]], *, markdown: bool = False) -> str:
    """An aligned table; in Markdown the best numbers of a column stand in bold. ``None`` is shown as a dash.

    Numbers are right-aligned and whole ones keep no digits after the point. What looks equal is equally good.

    >>> columns = [Column("model"), Column("MRR@10", best="highest")]
    >>> print(format_table(columns, [["bm25", 0.3481], ["splade", 0.31634]]))
    model   MRR@10
    ------  ------
    bm25    0.3481
    splade  0.3163
    >>> print(format_table(columns, [["bm25", 0.3481], ["splade", 0.31634]], markdown=True))
    | model  |     MRR@10 |
    |:-------|-----------:|
    | bm25   | **0.3481** |
    | splade |     0.3163 |
    """
    titled = [column if isinstance(column, Column) else Column(column) for column in columns]
    shown = [[_show(cell, column) for cell, column in zip(row, titled, strict=True)] for row in rows]
    headings = [column.heading for column in titled]
    if markdown:
        shown = _embolden(shown, [_best([row[i] for row in rows], column) for i, column in enumerate(titled)])
        headings = [_escape(heading) for heading in headings]
    widths = [max(map(len, texts)) for texts in zip(headings, *shown, strict=True)]
    right = [column.right or any(isinstance(row[i], int | float) for row in rows) for i, column in enumerate(titled)]
    lines = [_align(texts, widths, right) for texts in (headings, *shown)]
    if not markdown:
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join("  ".join(line).rstrip() for line in lines)
    dashes = ["-" * (width + 1) for width in widths]
    rule = [f"{dash}:" if to_right else f":{dash}" for dash, to_right in zip(dashes, right, strict=True)]
    body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([body[0], f"|{'|'.join(rule)}|", *body[1:]])


def _show(cell: Cell, column: Column) -> str:
    if isinstance(cell, float):
        return f"{cell:.{column.digits}f}"
    return "-" if cell is None else str(cell)


def _best(cells: Sequence[Cell], column: Column) -> str | None:
    """The text of the best number, when there are at least two to choose from."""
    numbers = [cell for cell in cells if isinstance(cell, int | float) and not math.isnan(cell)]
    if column.best is None or len(numbers) < 2:
        return None
    return _show(max(numbers) if column.best == "highest" else min(numbers), column)


def _embolden(rows: Sequence[Sequence[str]], best: Sequence[str | None]) -> list[list[str]]:
    return [
        [f"**{text}**" if text == top else _escape(text) for text, top in zip(row, best, strict=True)] for row in rows
    ]


def _align(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    cells = zip(texts, widths, right, strict=True)
    return [text.rjust(width) if to_right else text.ljust(width) for text, width, to_right in cells]


def _escape(text: str) -> str:
    return text.replace("|", "\\|")
