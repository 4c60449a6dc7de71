"""``python -m eval.report``: the results of a leaderboard as Markdown, one HTML page, one CSV file and figures."""

from __future__ import annotations

from pathlib import Path

from learned_sparse.core.errors import run_main
from learned_sparse.core.settings import CommandParser


def main(argv: list[str] | None = None) -> int:
    """Write README.md, index.html, cells.csv and figures from the JSON files of a leaderboard."""
    parser = CommandParser(prog="python -m eval.report", description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder that python -m eval.reproduce has written")
    options = parser.parse_args(argv)
    from eval.report.pages import write_report

    for path in write_report(options.folder):
        print(f"written: {path}")
    return 0


if __name__ == "__main__":
    run_main(main)
