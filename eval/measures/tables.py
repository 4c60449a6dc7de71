"""Tables of results as plain text or Markdown, and the files they are written to."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from learned_sparse.core.files import atomic_write

Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """Heading and format of a column.

    ``digits``: decimals of floats. ``best``: which number Markdown shows in bold. ``right``: right-aligned even if all
    cells are text.
    """

    heading: str
    digits: int = 4
    best: Literal["highest", "lowest"] | None = None
    right: bool = False


def format_table(columns: Sequence[Column | str], rows: Sequence[Sequence[Cell]], *, markdown: bool = False) -> str:
    """Format an aligned table; Markdown shows the best numbers of a column in bold. ``None`` becomes a dash.

    Numbers are right-aligned, integers have no decimals. Numbers that look equal are equally good.

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
    full = [column if isinstance(column, Column) else Column(column) for column in columns]
    texts = [[_format(cell, column) for cell, column in zip(row, full, strict=True)] for row in rows]
    headings = [column.heading for column in full]
    if markdown:
        best = [_best([row[i] for row in rows], column) for i, column in enumerate(full)]
        texts = [[_bold_or_escape(*pair) for pair in zip(row, best, strict=True)] for row in texts]
        headings = [_escape(heading) for heading in headings]
    widths = [max(map(len, column)) for column in zip(headings, *texts, strict=True)]
    right = [column.right or any(isinstance(row[i], int | float) for row in rows) for i, column in enumerate(full)]
    lines = [_align(line, widths, right) for line in (headings, *texts)]
    if not markdown:
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join("  ".join(line).rstrip() for line in lines)
    dashes = ["-" * (width + 1) for width in widths]
    rule = [f"{dash}:" if to_right else f":{dash}" for dash, to_right in zip(dashes, right, strict=True)]
    body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([body[0], f"|{'|'.join(rule)}|", *body[1:]])


def write_texts(folder: Path, contents: Mapping[str, str]) -> None:
    """Write each of ``contents`` (file name → text) atomically as UTF-8, with one newline at the end.

    Missing folders are created.
    """
    for name, content in contents.items():
        with atomic_write(folder / name) as file:
            file.write(f"{content.rstrip()}\n".encode())


def _format(cell: Cell, column: Column) -> str:
    if isinstance(cell, float):
        return f"{cell:.{column.digits}f}"
    return "-" if cell is None else str(cell)


def _best(cells: Sequence[Cell], column: Column) -> str | None:
    """Text of the best of at least two numbers."""
    numbers = [cell for cell in cells if isinstance(cell, int | float) and not math.isnan(cell)]
    if column.best is None or len(numbers) < 2:
        return None
    return _format(max(numbers) if column.best == "highest" else min(numbers), column)


def _bold_or_escape(text: str, best: str | None) -> str:
    return f"**{text}**" if text == best else _escape(text)


def _align(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> list[str]:
    cells = zip(texts, widths, right, strict=True)
    return [text.rjust(width) if to_right else text.ljust(width) for text, width, to_right in cells]


def _escape(text: str) -> str:
    """Text on one line with the special characters of Markdown and HTML escaped."""
    text = "".join(character if character.isprintable() else " " for character in text)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", text).replace("<", "&lt;")
