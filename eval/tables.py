"""Tables as aligned text or Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


class Strong(str):
    """A text that is shown in bold."""

    __slots__ = ()


Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """Heading and format of a column.

    ``digits``: decimals of floats. ``right``: right-aligned even if all cells are text.
    """

    heading: str
    digits: int = 4
    right: bool = False


@dataclass(frozen=True)
class Section:
    """A titled table with remarks below the title, one paragraph each."""

    title: str
    remarks: Sequence[str]
    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Cell]]


def heading(column: Column | str) -> str:
    """The heading of a column, which is a text alone where the format is the default."""
    return column.heading if isinstance(column, Column) else column


def format_table(columns: Sequence[Column | str], rows: Sequence[Sequence[Cell]], *, markdown: bool = False) -> str:
    """Format an aligned table; Markdown shows ``Strong`` cells in bold. ``None`` becomes a dash.

    Numbers are right-aligned, integers have no decimals.

    >>> print(format_table(["model", "MRR@10"], [["bm25", 0.3481], ["splade", 0.31634]]))
    model   MRR@10
    ------  ------
    bm25    0.3481
    splade  0.3163
    >>> print(format_table(["model", "MRR@10"], [["bm25", 0.3481], [Strong("splade"), None]], markdown=True))
    | model      | MRR@10 |
    |:-----------|-------:|
    | bm25       | 0.3481 |
    | **splade** |      - |
    """
    full = [column if isinstance(column, Column) else Column(column) for column in columns]
    texts = [[_format(cell, column) for cell, column in zip(row, full, strict=True)] for row in rows]
    headings = [column.heading for column in full]
    if markdown:
        texts = [[f"**{escape(text)}**" if isinstance(text, Strong) else escape(text) for text in row] for row in texts]
        headings = [escape(heading) for heading in headings]
    widths = [max(map(len, column)) for column in zip(headings, *texts, strict=True)]
    right = [column.right or any(isinstance(row[i], int | float) for row in rows) for i, column in enumerate(full)]
    lines = [
        [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ]
        for line in (headings, *texts)
    ]
    if not markdown:
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join("  ".join(line).rstrip() for line in lines)
    dashes = ["-" * (width + 1) for width in widths]
    rule = [f"{dash}:" if to_right else f":{dash}" for dash, to_right in zip(dashes, right, strict=True)]
    body = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([body[0], f"|{'|'.join(rule)}|", *body[1:]])


def format_sections(title: str, sections: Sequence[Section], *, markdown: bool) -> str:
    """A title and all sections as plain text or Markdown; a section without columns has no table."""

    def text(of: str) -> str:
        return escape(of) if markdown else of

    parts = [f"{'# ' if markdown else ''}{text(title)}"]
    for section in sections:
        parts += [f"{'## ' if markdown else ''}{text(section.title)}"] if section.title else []
        parts += map(text, section.remarks)
        if section.columns:
            parts.append(format_table(section.columns, section.rows, markdown=markdown) if section.rows else "none")
    return "\n\n".join(parts)


def escape(text: object) -> str:
    r"""Text on one line with the special characters of Markdown, HTML and of addresses escaped.

    >>> print(escape("a <b> `c` _d_ e_f $g$ MRR@10 @h"))
    a &lt;b&gt; \`c\` \_d\_ e_f \$g\$ MRR@10 \@h
    """
    line = one_line(text).replace("&", "&amp;")
    line = re.sub(r"[\\`*\[\]|~$]|(?<![^\W_])[_@]|_(?![^\W_])", r"\\\g<0>", line)
    return line.replace("<", "&lt;").replace(">", "&gt;").replace("://", r":\//")


def one_line(text: object) -> str:
    """Text with a space in place of each line break and control character."""
    return "".join(character if character.isprintable() else " " for character in str(text))


def _format(cell: Cell, column: Column) -> str:
    if isinstance(cell, float):
        return f"{cell:.{column.digits}f}"
    return "-" if cell is None else cell if isinstance(cell, str) else str(cell)
