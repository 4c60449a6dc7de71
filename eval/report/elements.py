"""HTML in small pieces: elements, plain tables and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval.report.quantities import VERDICTS, verdict
from learned_sparse.core import escape


def tag(name: str, *content: str, **attributes: str | bool | None) -> str:
    """An element around ``content``, which is HTML already; attributes are escaped here.

    ``None`` and False leave an attribute out; ``class_`` is ``class`` and ``data_key`` is ``data-key``.

    >>> tag("td", escape("a < b"), class_="number", data_key='"', hidden=True)
    '<td class="number" data-key="&quot;" hidden>a &lt; b</td>'
    """
    words = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if isinstance(value, str):
            words.append(f'{attribute}="{escape(value)}"')
        elif value:
            words.append(attribute)
    return f"<{' '.join(words)}>{''.join(content)}</{name}>"


def section(heading: str, *content: str, **attributes: str | bool | None) -> str:
    """A part of the page under its heading."""
    return tag("section", tag("h2", escape(heading)), *content, **attributes)


def items(lines: Iterable[str], **attributes: str | bool | None) -> str:
    """A list of plain texts."""
    return tag("ul", *(tag("li", escape(line)) for line in lines), **attributes)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    """A table of cells that are HTML already, in a box it can scroll in; columns named in ``numbers`` align right."""
    classes = ["number" if heading in numbers else None for heading in headings]
    cells = zip(headings, classes, strict=True)
    head = tag("tr", *(tag("th", escape(heading), scope="col", class_=class_) for heading, class_ in cells))
    body = [
        tag("tr", *(tag("td", cell, class_=class_) for cell, class_ in zip(row, classes, strict=True))) for row in rows
    ]
    return scrolling(tag("table", tag("thead", head), tag("tbody", *body)), headings[0])


def scrolling(content: str, label: str) -> str:
    """A box in which a wide table scrolls, by keyboard too."""
    return tag("div", content, class_="scroll", tabindex="0", role="region", aria_label=label)


def pill(word: str) -> str:
    """A verdict: its sign, its word and its colour."""
    return tag("span", escape(verdict(word)), class_=f"pill {VERDICTS[word][1]}")
