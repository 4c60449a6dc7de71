"""``python -m tests.screenshot URL FILE``: the page of ``learned_sparse.serve`` in Chromium, as the README shows it."""

from __future__ import annotations

import argparse
import os
import shutil


def main() -> None:
    """Wait for the hits of the URL's query, and save the window."""
    parser = argparse.ArgumentParser(prog="python -m tests.screenshot", description=__doc__)
    parser.add_argument("url", help="address of the page with its query, as the address bar shows it after a search")
    parser.add_argument("file", help="PNG to write")
    parser.add_argument("--width", type=int, default=1280, help="pixels (default 1280)")
    parser.add_argument("--height", type=int, default=760, help="pixels (default 760)")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium has no sandbox for root
    with sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=sandbox)
        page = browser.new_page(viewport={"width": options.width, "height": options.height})
        page.goto(options.url)
        page.wait_for_selector(".system .hit")
        page.wait_for_selector(".query-terms .terms")
        page.screenshot(path=options.file)
        browser.close()


if __name__ == "__main__":
    main()
