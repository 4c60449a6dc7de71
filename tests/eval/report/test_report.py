"""The pages of a leaderboard: every number is on every page, names are escaped, no network requests."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from eval.report.__main__ import main
from eval.report.pages import cells_csv, code, html, markdown, page, plain, write_report
from eval.report.results import COSTS, Results, measure, signed, summary
from eval.reproduce.claims import COSTS as CLAIMED_COSTS
from eval.reproduce.matrix import PUBLISHED_COSTS
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.files import read_json
from tests.eval.report import report_results
from tests.eval.report.report_results import HOSTILE
from tests.eval.report.report_results import made_up_results as made_up

COLUMNS = ("msmarco-mini", "scifact")
VOID_ELEMENTS = {"meta", "link", "br", "img", "input"}


class Reader(HTMLParser):
    """Start tags with attributes and text; checks that elements are closed in order."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(content)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"{tag}: an attribute twice"
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.elements:
            self.elements[-1][2].append(data)

    def texts(self, tag: str) -> list[str]:
        return ["".join(texts).strip() for name, _, texts in self.elements if name == tag]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    paths = report_results.write(tmp_path_factory.mktemp("report"), *report_results.made_up(queries=8, columns=COLUMNS))
    assert main([str(paths)]) == 0
    return paths


def test_every_file_is_written(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()} - {"results.json", "per_query.json", "trainings.json"}
    figures = {"scores", "tradeoff-flops", "tradeoff-ms-per-query", "tradeoff-pisa"}
    assert names == {"README.md", "cells.csv", "index.html", "queries"} | {
        f"{name}.{extension}" for name in figures for extension in ("svg", "png")
    }
    assert all(f"({name}.svg)" in (folder / "README.md").read_text("utf-8") for name in figures)


def test_equal_results_give_equal_bytes(folder: Path, tmp_path: Path) -> None:
    second = report_results.write(tmp_path, *report_results.made_up(queries=8, columns=COLUMNS))
    for path in write_report(second):
        assert path.read_bytes() == (folder / path.relative_to(second)).read_bytes(), path.name
        assert not re.search(rb"\d{4}-\d\d-\d\dT\d\d:", path.read_bytes()), path.name


def test_every_number_is_on_both_pages() -> None:
    results = made_up()
    tables = markdown(results, {})
    cells = {(a["data-c"], a["data-k"], a["data-v"]) for tag, a, _ in Reader(html(results)).elements if "data-v" in a}
    count = 0
    for cell in results.content["cells"]:
        number = next(i for i, column in enumerate(results.columns) if column["name"] == cell["column"])
        for quantity in results.quantities(results.columns[number]):
            value = results.value(cell["row"], cell["column"], quantity)
            if value is not None:
                count += 1
                assert (str(number), quantity.key, repr(value)) in cells
                assert quantity.show(value) in _line(tables, quantity.heading, cell)
    assert count > 700


def _line(tables: str, heading: str, cell: dict[str, Any]) -> str:
    """Line of a cell's row in the table of the measure or of the column's costs."""
    part = tables.split(f"## {heading}\n")[1] if f"\n## {heading}\n" in tables else _part(tables, cell["column"])
    names = (cell["row"], f"*{cell['row']}*", f"{cell['row']} (baseline)")
    return next(line for line in part.splitlines() if line.startswith("|") and line.split("|")[1].strip() in names)


def _part(tables: str, column: str) -> str:
    return tables.split("\n## Costs\n")[1].split(f"### {column}\n")[1]


def test_the_table_has_every_cell() -> None:
    results = made_up()
    elements = Reader(html(results)).elements
    rows = [attributes for tag, attributes, _ in elements if tag == "tr" and "data-r" in attributes]
    assert [row["data-r"] for row in rows] == [str(number) for number in range(len(results.rows))]
    assert rows[-1]["class"] == "published"
    width = sum(len(results.quantities(column)) for column in results.columns)
    assert len([1 for tag, a, _ in elements if tag == "td" and "data-k" in a]) == len(rows) * width


def test_verdicts_have_signs_besides_colours() -> None:
    results = made_up()
    signs = ["✓ reproduced", "✗ contradicted", "△ direction only", "= equal", "✗ worse", "▲", "▼"]
    texts = [text for _, _, parts in Reader(html(results)).elements if (text := "".join(parts).strip())]
    assert {*signs, "– not measured", "✗ failed"} <= set(texts)
    tables = markdown(results, {})
    assert [sign for sign in (*signs, "failed", "± 0.0042") if sign not in tables] == []
    assert "encode ended with status 137: killed" in tables


def test_the_summary_has_the_best_row_of_each_system() -> None:
    results = made_up()
    found = summary(results)
    assert found is not None
    column, quantity, bests = found
    assert (column["name"], quantity.key) == (COLUMNS[0], "nDCG@10")
    names = [best.row for best in bests]
    assert len({name.split()[0].split("-")[0].strip(",") for name in names}) == len(names)
    assert names == sorted(names, key=lambda name: -(results.value(name, COLUMNS[0], quantity) or 0))
    by_name = {best.row: best for best in bests}
    assert by_name["BM25"].difference is None  # the baseline
    (name,) = (name for name in names if name.startswith("SPLADE"))
    splade, compared = by_name[name], compare_values(results.per_query[COLUMNS[0]], name, "BM25")
    assert (splade.difference, splade.low, splade.high) == pytest.approx(compared)
    line = next(line for line in markdown(results, {}).splitlines() if line.startswith(f"| {name} |"))
    assert f"| {signed(splade.low)} to {signed(splade.high)} |" in line
    assert "Best row of each system" in html(results)
    assert summary(report_results.published_only()) is None


def compare_values(rows: Any, row: str, baseline: str) -> tuple[float, float, float]:
    """Mean difference in nDCG@10 and its interval, by SciPy."""
    pairs = zip(rows[row]["nDCG@10"].values(), rows[baseline]["nDCG@10"].values(), strict=True)
    values = [a - b for a, b in pairs]
    low, high = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.95)
    return sum(values) / len(values), float(low), float(high)


def test_claims_stand_before_scores_with_all_their_numbers() -> None:
    results = made_up()
    tables = markdown(results, {"scores.svg": "scores"})
    lines = [line for line in tables.splitlines() if "paper 0, Table 1" in line]
    assert len(lines) == 3  # columns
    numbers = ("+0.0213 (−0.0100 to +0.0400)", "| 0.0150 |", "| 0.0350 |", "| +0.0320 (+10 %) |")
    for part in (*numbers, "✓ reproduced, p &lt; 0.001"):
        assert part in lines[0]
    order = ["reproduce?", "best row of each", "## Claims", "<details>", "scores.svg", "## nDCG@10", "</details>"]
    assert [tables.index(part) for part in order] == sorted(tables.index(part) for part in order)
    page = html(results)
    texts = Reader(page).texts("small")
    assert texts.count("paper 0, Table 1") == 3
    assert texts.count("−0.0100 to +0.0400") == 9
    assert page.index('id="summary"') < page.index('id="claims"') < page.index("<h2>Scores</h2>")


def test_pages_define_each_verdict_and_name_unequal_training() -> None:
    results = made_up()
    results.content["claims"][0]["unequal"] = "a second network"
    for text in (markdown(results, {}), html(results)):
        assert "unequal training: a second network" in text
        assert text.count("in the opposite direction") == 1


def test_one_line_per_paper_says_whether_it_reproduces() -> None:
    results = made_up()
    assert [(paper, counts) for paper, _, counts in results.papers()] == [
        ("paper 0", "3 reproduced"), ("paper 1", "3 contradicted"), ("paper 2", "3 direction only"),
        ("paper 3", "2 not measured"),
    ]  # fmt: skip
    lines = [line for line in markdown(results, {}).splitlines() if line.startswith("| paper 0 |")]
    assert len(lines) == 1
    for part in ("✓ reproduced", "+0.0213 (−0.0100 to +0.0400)", "+0.0320 (+10 %)", "3 reproduced"):
        assert part in lines[0]
        assert part in html(results)


def test_the_summary_has_costs() -> None:
    results = made_up()
    column = results.columns[0]["name"]
    costs = results.summary_costs(column)
    assert [cost.key for cost in costs] == ["FLOPS", "index bytes", "ms/query"]
    found = summary(results)
    assert found is not None
    row = found[2][0].row
    line = next(line for line in markdown(results, {}).splitlines() if line.startswith(f"| {row} | "))
    for cost in costs:
        shown = cost.show(results.value(row, column, cost))
        assert f" {shown} |" in line
        assert shown in Reader(html(results)).texts("td")


def test_claims_of_one_paper_stand_together() -> None:
    results = made_up()
    results.content["claims"].append(results.content["claims"][0])
    sources = [claim["source"].partition(",")[0] for claim in results.claims()]
    assert sources == sorted(sources)


def test_a_note_says_when_a_claim_holds() -> None:
    results = made_up()
    sentence = "after Holm's correction over all claims"
    assert sentence in html(results).replace("&#39;", "'")
    assert sentence in markdown(results, {})


def test_the_best_of_our_scores_is_bold() -> None:
    results = made_up()
    best = max(results.value(row["name"], "scifact", measure("nDCG@10")) or 0 for row in results.rows)
    assert f"{best:.4f}" in Reader(html(results)).texts("b")
    assert f"**{best:.4f}**" in markdown(results, {})
    for cell in results.content["cells"]:
        if cell["row"] == "SPLADE":
            cell["scores"] = {"nDCG@10": 0.99}
    assert "0.9900" not in Reader(html(results)).texts("b")
    assert f"{best:.4f}" in Reader(html(results)).texts("b")
    assert "**0.9900**" not in markdown(results, {})
    assert f"**{best:.4f}**" in markdown(results, {})


def test_the_page_holds_main_measures_and_files_beside_it_the_others(tmp_path: Path) -> None:
    results, per_query = report_results.made_up(queries=8, columns=COLUMNS)
    folder = report_results.write(tmp_path, results, per_query)
    stale = tmp_path / "queries" / "9-9.js"
    stale.parent.mkdir()
    stale.write_text("", encoding="utf-8")
    write_report(folder)
    assert not stale.exists()
    content = (folder / "index.html").read_text(encoding="utf-8")
    queries = json.loads(Reader(content).texts("script")[0])["queries"]
    rows = [row["name"] for row in results["rows"]]
    for number, column in enumerate(results["columns"]):
        assert list(queries[number]["values"]) == column["measures"][:1]
        assert sorted(queries[number]["files"]) == sorted(column["measures"][1:])
        for other, file in queries[number]["files"].items():
            text = (folder / file).read_text(encoding="utf-8")
            known, key, values = json.loads(f"[{text.removeprefix('queryValues(').removesuffix(');' + chr(10))}]")
            assert (known, key) == (number, other)
            for row, name in zip(values, rows, strict=True):
                known_values = per_query[column["name"]].get(name, {}).get(other)
                expected = known_values and {query: round(value, 6) for query, value in known_values.items()}
                assert (row and dict(zip(queries[number]["ids"], row, strict=True))) == expected
    assert "script-src 'sha256-" in content
    assert "' 'self' file:; img-src" in content


def test_hostile_names_stay_text() -> None:
    results = made_up(names=HOSTILE)
    page = Reader(html(results))
    assert page.open == []
    assert page.texts("script")[-1].startswith('"use strict"')
    assert len(page.texts("script")) == 2
    assert not [1 for _, attributes, _ in page.elements for name in attributes if name.startswith("on")]
    assert HOSTILE[0] in page.texts("span")
    tables = markdown(results, {})
    assert "<script" not in tables
    assert "<img" not in tables
    assert {line.count("|") - line.count("\\|") for line in tables.splitlines() if "\\`x\\`" in line} >= {7}


def test_a_table_leaves_out_rows_without_a_score_in_its_measure() -> None:
    results = made_up()
    name, key = results.rows[1]["name"], "nDCG@10"
    assert f"\n| {name} |" in markdown(results, {}).partition(f"## {key}\n")[2].partition("\n\n#")[0]
    for cell in results.content["cells"]:
        if cell["row"] == name:
            cell["scores"].pop(key, None)
    assert f"\n| {name} |" not in markdown(results, {}).partition(f"## {key}\n")[2].partition("\n\n#")[0]


def test_the_csv_has_a_line_per_cell() -> None:
    results = made_up()
    lines = list(csv.DictReader(io.StringIO(cells_csv(results))))
    assert len(lines) == len(results.content["cells"])
    first, cell = lines[0], results.content["cells"][0]
    assert (first["row"], first["column"], first["status"]) == (cell["row"], cell["column"], "done")
    assert float(first["MRR@10"]) == cell["scores"]["MRR@10"]
    assert first["FLOPS"] == ""  # unknown for BM25
    assert float(first["ms/query"]) == cell["costs"]["ms/query"]


def test_the_policy_allows_only_our_style_and_script() -> None:
    script = 'document.title = "ü";'
    content = page(HOSTILE[0], "<p>x</p>", style="p { margin: 0; }", script=script, data={"a": HOSTILE})
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", content, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in content
    assert "default-src 'none'" in content
    assert "unsafe" not in content
    assert "script" not in page("t", "<p>x</p>")
    assert Reader(content).texts("title") == [HOSTILE[0]]
    assert json.loads(Reader(content).texts("script")[0]) == {"a": list(HOSTILE)}


@pytest.mark.parametrize("text", ["</SCRIPT>", "</style >", "<!-- x"])
def test_a_script_that_ends_its_element_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="holds"):
        page("t", "", script=text)


@given(st.text())
def test_data_is_read_back_from_the_page(text: str) -> None:
    (script,) = Reader(page("t", "", data=[text])).texts("script")
    assert json.loads(script) == [text]


@given(st.text(st.characters(codec=None)))
def test_every_title_can_be_written(text: str) -> None:
    assert page(text, "").encode().count(b"<title>") == 1


def test_no_request_to_the_network() -> None:
    page = html(made_up()).replace("http://www.w3.org/2000/svg", "")  # a namespace, not an address
    assert not re.search(r"https?:|url\(|@import|\bsrc=|fetch\(|XMLHttp|import\(|innerHTML", page)


def test_no_inline_styles() -> None:
    assert not [1 for _, attributes, _ in Reader(html(made_up())).elements if "style" in attributes]


def test_a_pool_is_explained() -> None:
    results = made_up()
    for content in (markdown(results, {}), html(results)):
        assert "best documents for each query" in content
        assert "pool of 100" in content


def test_published_rows_alone_are_shown() -> None:
    results = report_results.published_only()
    assert "0.3220" in markdown(results, {})
    assert "0.3220" in Reader(html(results)).texts("span")


def test_optional_parts_may_be_missing() -> None:
    content, _ = report_results.made_up(queries=2)
    for cell in content["cells"]:
        for cost in ("FLOPS", "PISA ms/query"):
            cell["scores"].pop(cost, None)  # the published row
        cell.update({"costs": None, "difference": {}, "p": {}, "verdicts": {}, "expected": None, "spread": None})
    results = Results(content={**content, "claims": [], "baseline": None}, per_query={})
    tables = markdown(results, {})
    assert not {"## Costs", "## Claims", "## Expected scores"} & set(tables.splitlines())
    assert Reader(html(results)).open == []


def test_costs_are_the_costs_of_claims() -> None:
    assert tuple(cost.key for cost in COSTS) == (*CLAIMED_COSTS, *PUBLISHED_COSTS)


@pytest.mark.parametrize(("text", "shown"), [("a`b", "`` a`b ``"), ("plain", "`plain`"), ("``", "``` `` ```")])
def test_markdown_code(text: str, shown: str) -> None:
    assert code(text) == shown


def test_plain_text_is_one_line() -> None:
    assert plain("a\nb\u2028c") == "a b c"


def test_a_folder_without_results(tmp_path: Path) -> None:
    with pytest.raises(LearnedSparseError, match=r"results\.json: no such file"):
        write_report(tmp_path)


def test_other_json_is_refused(tmp_path: Path) -> None:
    report_results.write(tmp_path, {"rows": []}, {})
    with pytest.raises(
        LearnedSparseError, match=r"results\.json: no 'title'; it is not what python -m eval\.reproduce"
    ):
        write_report(tmp_path)
    assert read_json(tmp_path / "per_query.json") == {}
