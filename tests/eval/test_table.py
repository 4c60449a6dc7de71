"""Tables line up, and the best numbers stand out."""

from __future__ import annotations

import pytest

from eval.measures.table import Cell, Column, format_table

COLUMNS = [
    Column("run"),
    Column("R@100", best="highest"),
    Column("FLOPS", digits=2, best="lowest"),
    Column("terms", digits=1),
]
ROWS: list[list[Cell]] = [
    ["bm25|flat", 0.78441, None, 41],
    ["splade", 0.83912, 1.004, 92.46],
    ["sparterm", 0.83908, 1.0, float("nan")],
]

PLAIN = """\
run         R@100  FLOPS  terms
---------  ------  -----  -----
bm25|flat  0.7844      -     41
splade     0.8391   1.00   92.5
sparterm   0.8391   1.00    nan"""

MARKDOWN = """\
| run        |      R@100 |    FLOPS | terms |
|:-----------|-----------:|---------:|------:|
| bm25\\|flat |     0.7844 |        - |    41 |
| splade     | **0.8391** | **1.00** |  92.5 |
| sparterm   | **0.8391** | **1.00** |   nan |"""


def test_plain() -> None:
    assert format_table(COLUMNS, ROWS) == PLAIN


def test_markdown() -> None:
    assert format_table(COLUMNS, ROWS, markdown=True) == MARKDOWN


def test_one_row_is_not_the_best_of_anything() -> None:
    assert "**" not in format_table(COLUMNS, ROWS[:1], markdown=True)


def test_no_rows() -> None:
    assert format_table(["a", "bc"], []) == "a  bc\n-  --"


def test_a_row_of_another_length_is_a_fault() -> None:
    with pytest.raises(ValueError, match="zip"):
        format_table(["a", "b"], [["1"]])
