"""The page in a real browser: clicks, sent by a script in a copy of the page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from eval.reproduce.leaderboard.pages import html
from tests.eval.report.report_results import results

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine: apt-get install chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=4000", "--dump-dom",
)  # fmt: skip
CLICKS = """
const table = [...document.querySelectorAll("h2")].find((h) => h.textContent === "scifact").parentElement
  .querySelectorAll("table")[3];
const column = (place) => [...table.tBodies[0].rows].map((row) => row.cells[place].textContent);
const button = (place) => table.tHead.rows[0].cells[place].firstChild;
const state = { heading: table.tHead.rows[0].cells[1].textContent };
button(1).click();
state.descending = column(1);
state.direction = table.tHead.rows[0].cells[1].ariaSort;
button(1).click();
state.ascending = column(1);
button(0).click();
state.names = column(0);
state.hostile = document.querySelectorAll("#hostile").length;
document.body.insertAdjacentHTML("beforeend", "<pre id=state></pre>");
document.getElementById("state").textContent = JSON.stringify(state);
"""


def test_a_click_on_a_heading_sorts_its_table(tmp_path: Path) -> None:
    page = html(results("</script><b id=hostile>", 'a"b & <b id=hostile>'))
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    (tmp_path / "page.html").write_text(page.replace("</body>", f"<script>{CLICKS}</script></body>"), encoding="utf-8")
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", str(tmp_path / "page.html")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    state = json.loads(unescape(shown.partition('<pre id="state">')[2].partition("</pre>")[0]))
    assert state["heading"] == "MRR@10"
    numbers = [float(text[:6]) for text in state["descending"] if text != "–"]
    assert len(numbers) > 5
    assert (numbers, state["direction"]) == (sorted(numbers, reverse=True), "descending")
    assert [float(text[:6]) for text in state["ascending"] if text != "–"] == numbers[::-1]
    assert state["descending"][-1] == state["ascending"][-1] or "–" not in state["descending"]  # unknown stays last
    assert len(state["names"]) == len(numbers) + state["descending"].count("–")
    assert state["hostile"] == 0
