"""The page in a real browser: clicks and keys, sent by a script in a copy of the page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from eval.measures import write_texts
from eval.report.pages import html, query_files
from eval.report.results import Results, verdict
from tests.eval.report import report_results

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: apt-get install chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=4000",
    "--window-size=1280,900", "--dump-dom",
)  # fmt: skip

CHIPS = 11
"""Three measures and eight costs."""
HOSTILE = ("</script><b id=hostile>", "a\"b'c & <b id=hostile>", "\u2028")

CLICKS = """
const $ = (selector) => document.querySelector(selector);
const names = () => [...document.querySelectorAll("#table tbody .name span")].map((name) => name.textContent);
const cells = () => [...document.querySelectorAll('#table td[data-c="3"][data-k="MRR@10"]')];
const values = () => cells().map((cell) => cell.dataset.v ?? null);
const state = { order: names(), chips: document.querySelectorAll(".chip").length };
const heading = $('#table th[data-c="3"][data-k="MRR@10"]');
heading.querySelector("button").click();
state.sorted = values();
state.direction = heading.getAttribute("aria-sort");
heading.querySelector("button").click();
state.again = values();
$("#table .name button").click();
state.back = names();
const hidden = () => $('#table td[data-k="FLOPS"]').hidden;
state.hidden = [hidden()];
[...document.querySelectorAll(".chip")].find((chip) => chip.textContent === "FLOPS").click();
state.hidden.push(hidden());
const cell = $('#table tr[data-r="4"] td[data-c="1"][data-k="nDCG@10"]');
cell.click();
state.opened = [$("dialog").open, $("dialog h2").textContent, $("dialog pre").textContent];
$("dialog").close();
const key = (target, name) => target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
cell.focus();
key(cell, "ArrowDown");
state.moved = document.activeElement.parentElement.dataset.r;
key(document.activeElement, "Enter");
state.entered = $("dialog h2").textContent;
$("dialog").close();
state.lines = document.querySelectorAll("#tradeoff polyline").length;
state.points = document.querySelectorAll("#tradeoff figure .point").length;
const [, , across, up] = document.querySelectorAll("#queries select");
up.selectedIndex = 4;
up.dispatchEvent(new Event("change"));
state.summary = $("#queries p").textContent;
state.dots = document.querySelectorAll("#queries .dot").length;
key($("#queries svg"), "ArrowRight");
state.tip = $("#queries .tip").textContent;
state.hostile = document.querySelectorAll("#hostile").length;
state.wide = [document.documentElement.scrollWidth, innerWidth];
scrollTo(0, 0);
const facts = [...document.querySelectorAll(".facts li")];
state.facts = facts.map((fact) => [fact.textContent, fact.getBoundingClientRect().bottom]);
parent.postMessage(JSON.stringify(state), "*");
document.title = JSON.stringify(state);
"""


CHOOSE = """
const choose = () => {
  const [, measure] = document.querySelectorAll("#queries select");
  measure.selectedIndex = 1;
  measure.dispatchEvent(new Event("change"));
  const report = () => (document.title = JSON.stringify({ summary: document.querySelector("#queries p").textContent }));
  setTimeout(report, 1000);
};
addEventListener("load", choose);
"""


def dumped(page: Path, tmp_path: Path) -> str:
    """HTML of the document after its scripts have run."""
    assert BROWSER is not None
    command = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
    return subprocess.run(command, capture_output=True, check=True, timeout=300).stdout.decode()


def scripted_page(results: Results) -> str:
    """A copy of the page without its Content-Security-Policy, with a script that clicks and reports the state."""
    copy = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html(results), count=1)
    return copy.replace(
        "</body>", f"<script>window.onload = () => setTimeout(() => {{ {CLICKS} }}, 500)</script></body>"
    )


@pytest.fixture(scope="module")
def results() -> Results:
    results, per_query = report_results.made_up(queries=40)
    return Results(content=results, per_query=per_query)


@pytest.fixture(scope="module")
def state(results: Results, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("browser")
    page = folder / "page.html"
    page.write_text(scripted_page(results), encoding="utf-8")
    return _title(dumped(page, folder))


def _title(document: str) -> dict[str, Any]:
    match = re.search("<title>(.*?)</title>", document, re.DOTALL)
    assert match
    content: dict[str, Any] = json.loads(unescape(match.group(1)))
    return content


def test_the_policy_allows_our_script(results: Results, tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text(html(results), encoding="utf-8")
    document = dumped(page, tmp_path)
    assert document.count('class="chip"') == CHIPS
    assert document.count("<polyline") == 2
    assert document.count('class="dot"') > 10


def test_every_row_is_present(results: Results, state: dict[str, Any]) -> None:
    assert state["order"] == state["back"] == [row["name"] for row in results.rows]
    assert state["chips"] == CHIPS


def test_a_heading_sorts(state: dict[str, Any]) -> None:
    values = [float(value) for value in state["sorted"] if value is not None]
    assert len(values) == 16
    assert values == sorted(values, reverse=True)
    assert state["direction"] == "descending"
    assert state["sorted"][-1] is None  # rows without a number come last in both orders
    assert [value for value in state["again"] if value is not None] == state["sorted"][-2::-1]
    assert state["again"][-1] is None


def test_costs_are_shown_by_their_chip(state: dict[str, Any]) -> None:
    assert state["hidden"] == [True, False]


def test_a_cell_shows_its_commands(results: Results, state: dict[str, Any]) -> None:
    cell = results.cell(results.rows[4]["name"], results.columns[1]["name"])
    assert state["opened"] == [True, f"{cell['row']}, {cell['column']}", "\n".join(cell["commands"])]


def test_cells_can_be_reached_and_opened_with_the_keyboard(results: Results, state: dict[str, Any]) -> None:
    assert state["moved"] == "5"
    assert state["entered"].startswith(results.rows[5]["name"])


def test_the_trade_off_joins_curves(results: Results, state: dict[str, Any]) -> None:
    assert state["lines"] == 2
    cells = [results.cell(row["name"], results.columns[0]["name"]) for row in results.rows]
    flops = [{**(cell["costs"] or {}), **(cell["scores"] or {})}.get("FLOPS") for cell in cells]
    assert state["points"] == sum(value is not None for value in flops) > 10  # published ones are scores


def test_two_rows_are_compared_by_query(results: Results, state: dict[str, Any]) -> None:
    first, other = (results.per_query[results.columns[0]["name"]][results.rows[n]["name"]]["nDCG@10"] for n in (0, 4))
    gains = {query: other[query] - first[query] for query in first}
    better, worse = sum(gain > 0 for gain in gains.values()), sum(gain < 0 for gain in gains.values())
    counted = f"for {better} queries, equal for {len(gains) - better - worse}, worse for {worse};"
    assert state["summary"].startswith(f"SPLADE-max is better than BM25 {counted}")
    assert 10 < state["dots"] <= len(gains)
    worst = min(gains, key=gains.__getitem__)
    assert state["tip"] == f"{worst}\nBM25: {first[worst]:.4f}\nSPLADE-max: {other[worst]:.4f}"


def test_another_measure_is_loaded_from_a_file_beside_the_page(results: Results, tmp_path: Path) -> None:
    """The script that chooses the measure is a file too, which the policy must allow."""
    write_texts(tmp_path, {**query_files(results), "choose.js": CHOOSE})
    page = tmp_path / "index.html"
    page.write_text(html(results).replace("</body>", '<script src="choose.js"></script></body>'), encoding="utf-8")
    state = _title(dumped(page, tmp_path))
    column, rows = results.columns[0], results.rows
    first, other = (results.per_query[column["name"]][rows[n]["name"]][column["measures"][1]] for n in (0, -2))
    gains = [other[query] - first[query] for query in first]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    counted = f"for {better} queries, equal for {len(gains) - better - worse}, worse for {worse};"
    assert f"is better than BM25 {counted}" in state["summary"]


def test_on_a_phone_the_page_opens_with_the_verdicts_and_does_not_scroll_sideways(
    results: Results, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(scripted_page(results), encoding="utf-8")
    frame = '<!doctype html><title></title><iframe src="page.html" width="375" height="800"></iframe>'
    script = "<script>onmessage = (event) => (document.title = event.data)</script>"
    (tmp_path / "phone.html").write_text(frame + script, encoding="utf-8")
    state = _title(dumped(tmp_path / "phone.html", tmp_path))
    content_width, window_width = state["wide"]
    assert window_width == 375
    assert content_width <= window_width
    assert len(state["facts"]) > len(results.papers())
    for (paper, claim, _), (text, bottom) in zip(results.papers(), state["facts"], strict=False):
        assert text == f"{paper}: {verdict(claim['verdict'])} ({claim['claim']}, {claim['column']})"
        assert bottom < 800


def test_hostile_names_are_text_in_a_browser(tmp_path: Path) -> None:
    results, per_query = report_results.made_up(queries=5, names=HOSTILE)
    page = tmp_path / "page.html"
    page.write_text(scripted_page(Results(content=results, per_query=per_query)), encoding="utf-8")
    state = _title(dumped(page, tmp_path))
    assert state["hostile"] == 0
    assert state["order"][:3] == list(HOSTILE)
