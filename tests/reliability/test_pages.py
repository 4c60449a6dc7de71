"""Pages show any text as text: no element, no handler and no table cell comes from a name, a note or a document."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.measures import format_table
from eval.report.pages import html, markdown
from eval.report.results import Results
from learned_sparse.core import EXPANDED
from learned_sparse.inspect.explanation import Inspection, Score, ScoreTerm, make_view
from learned_sparse.inspect.rendering import to_html
from tests.eval.report import report_results
from tests.learned_sparse.inspect.explaining import Explaining
from tests.reliability.scale import INPUTS, record

HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><svg/onload=alert(1)>",
    "javascript:alert(1)", "{{7*7}}{% raw %}", "<!--", "]]>", "a|b\n|c|", "[x](javascript:alert(1))",
    "' onmouseover='alert(1)", "\u2028\u2029", "&lt;b&gt;&#60;b&#62;", "</title><b>", "</style><b>", "</pre><b>",
    "\\", "`", "%}{#", "\x00\x1b[31m",
)  # fmt: skip
FREE = {"title", "about", "command", "processor", "source", "note", "curve", "claim", "error", "collection", "backbone"}
"""Keys of ``results.json`` whose texts are free."""


class Elements(HTMLParser):
    """Elements, attributes, and the texts of scripts and of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data

    def check(self) -> None:
        """No event handler and no address that runs code."""
        for name, value in self.attributes:
            assert not name.startswith("on"), name
            assert name not in {"href", "src", "action"} or (value or "").startswith("data:"), value


def with_text(content: Any, text: str, key: str = "") -> Any:
    """``content`` with ``text`` after every free text and every name."""
    if isinstance(content, dict):
        if key == "versions":
            return {f"{name}{text}": f"{value}{text}" for name, value in content.items()}
        return {name: with_text(value, text, name) for name, value in content.items()}
    if isinstance(content, list):
        return [with_text(value, text, "error" if key == "commands" else key) for value in content]
    named = key in {"name", "row", "column", "baseline"}
    return f"{content}{text}" if isinstance(content, str) and (named or key in FREE) else content


def results_with(text: str) -> Results:
    """Made-up results with ``text`` in every field, after a space: the first word of a row names its system."""
    text = f" {text}"
    content, per_query = report_results.made_up(queries=3)
    named = {
        f"{column}{text}": {
            f"{row}{text}": {
                measure: {f"{query}{text}": score for query, score in scores.items()}
                for measure, scores in measures.items()
            }
            for row, measures in rows.items()
        }
        for column, rows in per_query.items()
    }
    return Results(content=with_text(content, text), per_query=named)


def inspection_with(text: str) -> Inspection:
    """Query, document and score with ``text`` in every field."""
    impacts = {text or "x": 3, "hives": 2}
    reading = Explaining().explain(f"hives {text} rash")
    views = [
        make_view(kind, f"hives {text} rash{EXPANDED}{text}", reading, impacts, id=text, notes=[text])
        for kind in ("query", "document")
    ]
    words = {"word_in_query": text, "word_in_document": text}
    terms = (ScoreTerm(term=text, query=2, document=3, product=6, literal=None, **words),)
    signals, only = {text: 1.0}, {text: 1}
    score = Score(total=6, lucene=6.0, signals=signals, terms=terms, only_in_query=only, only_in_document=only)
    return Inspection(model=text, index=text, query=views[0], document=views[1], score=score)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_report(text: str) -> None:
    page, plain = Elements(html(results_with(text))), Elements(html(results_with("name")))
    page.check()
    assert page.tags == plain.tags
    data = html(results_with(text)).partition('<script type="application/json" id="data">')[2].partition("</script>")[0]
    assert json.loads(data)["rows"][0]["name"] == f"BM25 {text}"
    assert "<" not in data


@pytest.mark.parametrize("text", HOSTILE)
def test_a_report_in_markdown(text: str) -> None:
    results = results_with(text)
    page, plain = markdown(results, {"a.svg": text}), markdown(results_with("name"), {"a.svg": "name"})
    tables = [[line for line in one.splitlines() if line.startswith("|")] for one in (page, plain)]
    cells = [[len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table] for table in tables]
    assert cells[0] == cells[1]
    outside_of_code = [re.sub(r"(?<!\\)(`+).+?\1(?!`)", "", one) for one in (page, plain)]
    tags = [re.findall(r"<[a-z!/][^>]*>?", one) for one in outside_of_code]
    assert tags[0] == tags[1]
    assert set(tags[1]) <= {"<details>", "</details>", "<summary>", "</summary>"}
    assert not re.search(r"(?<!\\)\]\(javascript", outside_of_code[0])


@pytest.mark.parametrize("text", HOSTILE)
def test_an_inspection(text: str) -> None:
    page, plain = Elements(to_html(inspection_with(text), terms=5)), Elements(to_html(inspection_with("name"), terms=5))
    page.check()
    assert set(page.tags) == set(plain.tags)
    assert page.tags["title"] == page.tags["style"] == page.tags["body"] == 1
    policy = next(value for name, value in page.attributes if name == "content")
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


@settings(max_examples=INPUTS)
@given(st.text(st.sampled_from("<>\"'&/\\{}%`|[]()!-= \n\x00\u2028ascript:on"), max_size=60))
def test_generated_texts_on_an_inspection_page(text: str) -> None:
    page = Elements(to_html(inspection_with(text), terms=5))
    page.check()
    assert set(page.tags) <= {"html", "head", "meta", "title", "style", "body", "pre", "code", "span"}


def test_generated_texts_are_recorded() -> None:
    test = f"tests/reliability/{Path(__file__).name}::test_generated_texts_on_an_inspection_page"
    record("input", "inspection page", INPUTS, "shown as text", test)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_table_in_markdown(text: str) -> None:
    table = format_table([f"model{text}", "score"], [[f"a{text}", 0.5], ["b", 0.25]], markdown=True)
    assert [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table.splitlines()] == [3, 3, 3, 3]
    assert not re.search(r"<[a-z!/]|(?<!\\)\]\(javascript", table)
