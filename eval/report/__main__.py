"""``python -m eval.report``: what a finished matrix found, as Markdown, as one HTML page and as figures."""

from __future__ import annotations

import argparse
from pathlib import Path


def main(argv: list[str] | None = None) -> int:
    """Write README.md, index.html and figures beside the results.json and per_query.json of a matrix."""
    parser = argparse.ArgumentParser(prog="python -m eval.report", description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="with results.json and per_query.json")
    options = parser.parse_args(argv)
    for path in write(options.folder):
        print(f"written: {path}")
    return 0


def write(folder: Path) -> list[Path]:
    """Write the report of the results in ``folder`` there; equal results give equal files.

    The pages are written before the figures: without matplotlib the error comes last. A figure that there is nothing
    for any more is removed.
    """
    from eval.measures import write_texts
    from eval.report.figures import NAMES, figures, titles
    from eval.report.html import html
    from eval.report.markdown import markdown
    from eval.report.results import Found
    from learned_sparse.core import atomic_write

    found = Found.load(folder)
    shown = {f"{name}.svg": title for name, title in titles(found).items()}
    pages = {"README.md": markdown(found, shown), "index.html": html(found)}
    write_texts(folder, pages)
    drawn = figures(found)
    for stale in set(NAMES) - set(drawn):
        (folder / stale).unlink(missing_ok=True)
    for name, content in drawn.items():
        with atomic_write(folder / name) as file:
            file.write(content)
    return [folder / name for name in (*pages, *drawn)]


if __name__ == "__main__":
    from learned_sparse.core import run_main

    run_main(main)
