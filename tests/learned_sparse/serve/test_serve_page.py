"""The page in a real browser (Chromium through Playwright): hostile text, the keyboard, judged queries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.learned_sparse.inspect.explaining import EXPANSION
from tests.learned_sparse.serve.serving import AGAIN, QUERIES, running, toy_content

pytestmark = pytest.mark.browser
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
NewPage = Callable[..., Any]


@pytest.fixture(scope="module")
def browser() -> Generator[Any]:
    """Chromium; the tests are skipped without it or without Playwright."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: run make test-browser")
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} on PATH: run make test-browser")
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium has no sandbox for root
    with playwright.sync_playwright() as engine:
        opened = engine.chromium.launch(executable_path=executable, args=sandbox)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with toy_content(tmp_path_factory.mktemp("page")) as content, running(content) as url:
        yield url


@pytest.fixture
def new_page(browser: Any, address: str) -> Generator[NewPage]:
    """Opens the page; afterwards nothing was requested elsewhere, and no script failed or was blocked."""
    requests, problems, contexts = list[str](), list[str](), list[Any]()

    def opened(query: str = "") -> Any:
        context = browser.new_context()
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda message: problems.append(message.text))
        page.on("requestfailed", lambda request: problems.append(request.url))
        page.goto(f"{address}{query}")
        page.wait_for_selector("#left option", state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert requests
    assert [url for url in requests if not url.startswith((address, "data:"))] == []
    assert problems == []


def search(page: Any, text: str) -> None:
    page.keyboard.press("Tab")
    page.keyboard.press("/")
    page.fill("#query", text)
    page.keyboard.press("Enter")
    page.wait_for_selector(".system .hit")
    for system in ("first", "last"):
        page.wait_for_selector(f".system:{system}-child .query-terms .terms")


def test_two_systems_are_compared_and_a_hit_is_explained_by_keyboard(new_page: NewPage) -> None:
    page = new_page()
    search(page, "hives and rash")
    assert page.locator(".system h2").all_inner_texts() == ["words", "bm25"]
    assert "encoding" in page.locator(".latency").first.inner_text()
    assert page.locator(".system").first.locator("h3").all_inner_texts() == ["Literal terms (3)", "Expansion terms (1)"]
    page.keyboard.press("Escape")
    for key in ("j", "j", "k", "Enter"):
        page.keyboard.press(key)
    page.wait_for_selector("#explained table")
    first = page.locator("#results .hit button").first.get_attribute("data-id")
    assert page.locator("#explanation-title").inner_text() == f"{first} – words"
    assert "hives" in page.locator("#explained mark").all_inner_texts()
    assert EXPANSION in page.locator("#explained table").first.inner_text()
    assert "100" in page.evaluate("document.querySelector('.fill').style.width")
    page.keyboard.press("Escape")
    assert not page.locator("#explanation").is_visible()
    assert page.evaluate("document.activeElement.dataset.id") == first


def test_hostile_text_stays_text(new_page: NewPage) -> None:
    page = new_page(query="?left=words&right=%3Cb%3Eagain%3C/b%3E")
    page.locator("#judged summary").click()
    page.locator("#judged-list button", has_text="<script>").click()
    page.wait_for_selector(".query-terms .terms")
    assert AGAIN in page.locator(".system h2").all_inner_texts()
    page.locator(".hit button[data-id=d2]").first.click()
    page.wait_for_selector("#explained .text")
    assert "<script>alert(1)</script>" in page.locator("#explained .text").inner_text()
    page.keyboard.press("Escape")
    page.locator("#tab-weigh").click()
    page.fill("#text", f"\U0001f600 {list(QUERIES.values())[1]}")
    page.locator("#weigh-form button").click()
    page.wait_for_selector("#weighed mark")
    assert "<img src=x" in page.locator("#weighed .text").inner_text()
    assert page.locator("main img, main b:not(.terms b), main script, main svg").count() == 0


def test_judged_queries(new_page: NewPage) -> None:
    page = new_page()
    page.locator("#judged summary").click()
    page.fill("#filter", "hives")
    page.wait_for_selector("#judged-count >> text=1 query of toy, test")
    page.locator("#judged-list button").click()
    page.wait_for_selector("#relevant summary")
    assert "2 relevant documents" in page.locator("#relevant summary").inner_text()
    marked = page.locator(".system").first.locator(".hit:has(.relevant) button")
    assert {button.get_attribute("data-id") for button in marked.all()} == {"d1", "d10"}
