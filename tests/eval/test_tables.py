"""Tables are aligned, and Markdown shows strong cells in bold."""

from __future__ import annotations

import pytest

from eval.tables import Cell, Column, Strong, format_table

COLUMNS: list[Column | str] = ["run", "R@100", Column("FLOPS", digits=2), Column("terms", digits=1)]
ROWS: list[list[Cell]] = [
    ["bm25|flat", 0.78441, None, 41],
    [Strong("splade"), 0.83912, 1.004, 92.46],
    ["sparterm", 0.83908, 1.0, float("nan")],
]

PLAIN = """\
run         R@100  FLOPS  terms
---------  ------  -----  -----
bm25|flat  0.7844      -     41
splade     0.8391   1.00   92.5
sparterm   0.8391   1.00    nan"""

MARKDOWN = """\
| run        |  R@100 | FLOPS | terms |
|:-----------|-------:|------:|------:|
| bm25\\|flat | 0.7844 |     - |    41 |
| **splade** | 0.8391 |  1.00 |  92.5 |
| sparterm   | 0.8391 |  1.00 |   nan |"""


def test_plain_and_markdown() -> None:
    assert format_table(COLUMNS, ROWS) == PLAIN
    assert format_table(COLUMNS, ROWS, markdown=True) == MARKDOWN
    assert format_table(["a", "bc"], []) == "a  bc\n-  --"


def test_rows_must_have_one_cell_per_column() -> None:
    with pytest.raises(ValueError, match="zip"):
        format_table(["a", "b"], [["1"]])
