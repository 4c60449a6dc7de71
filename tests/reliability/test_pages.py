"""Pages show any text as text: no element, no handler and no table cell comes from a name, a note or a document."""

from __future__ import annotations

import json
import re

import pytest

from eval.reproduce.pages import Results, markdown
from eval.tables import format_table
from tests.eval.report.report_results import results

HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "<!--", "a|b\n|c|", "[x](javascript:alert(1))",
    "' onmouseover='alert(1)", "\u2028\u2029", "&lt;b&gt;&#60;b&#62;", "</pre><b>", "\\", "`", "\x00\x1b[31m",
)  # fmt: skip
KEYS = "title|about|command|processor|source|note|curve|claim|error|collection|backbone|name|row|column|baseline"
"""Keys of ``results.json`` whose texts are free, or names."""


def results_with(text: str) -> Results:
    """Made-up results with ``text`` in every field, after a space: the first word of a row names its system."""
    made_up = results()
    whole = re.compile(rf'("(?:{KEYS})": "(?:[^"\\]|\\.)*)"')
    content = whole.sub(lambda match: f"{match[1]} {json.dumps(text)[1:]}", json.dumps(made_up.content))
    trainings = {(f"{row} {text}", f"{column} {text}"): of for (row, column), of in made_up.trainings.items()}
    return Results(content=json.loads(content), trainings=trainings)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_report_in_markdown(text: str) -> None:
    page, plain = markdown(results_with(text)), markdown(results_with("name"))
    assert cells(page) == cells(plain)
    outside_of_code = re.sub(r"(?<!\\)(`+).+?\1(?!`)", "", page)
    assert not re.search(r"<[a-z!/]|(?<!\\)\]\(javascript", outside_of_code)
    table = format_table([f"model{text}", "score"], [[f"a{text}", 0.5], ["b", 0.25]], markdown=True)
    assert cells(table) == [3, 3, 3, 3]
    assert not re.search(r"<[a-z!/]|(?<!\\)\]\(javascript", table)


def cells(text: str) -> list[int]:
    """Bars that separate cells, of each line of a table."""
    return [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in text.splitlines() if line.startswith("|")]
