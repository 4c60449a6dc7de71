"""``python -m tests.reliability.report RESULTS``: write ``tests/RELIABILITY.md`` from the record of a whole run."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests" / "RELIABILITY.md"
HEADING = "### Faults found by the reliability tests"
"""Section of the changelog that lists what was found and mended."""
KINDS = {
    "kill": "Kills before a random file operation or at a random time, after which the command is given again",
    "failed write": "Failing writes",
    "corruption": "Damaged input",
    "race": "Several at once",
    "input": "Generated input",
}
HEAD = """\
# Reliability

Faults and inputs that the commands and readers were tried with. `make test-faults` tries them all again and writes this
page; `make test` tries a few of each. A kill that failed prints a line `repeat with RELIABILITY_REPLAY=...`; the test
with this variable set repeats these kills only.
"""


def page(lines: Iterable[dict[str, Any]], changelog: str) -> str:
    """The page as Markdown; ``lines`` are those that ``scale.record`` and ``scale.finish`` wrote."""
    rows, seconds = [], 0.0
    for line in lines:
        if line["kind"] == "time":
            seconds += line["tried"]
        else:
            rows.append(line)
    text = [HEAD, _totals(rows, seconds)]
    for kind, title in KINDS.items():
        chosen = [row for row in rows if row["kind"] == kind]
        if chosen:
            text.append(f"\n## {title}\n\n" + "\n".join(_table(chosen)))
    text.append("\n## Found and mended\n\n" + "\n".join(_mended(changelog)))
    return "\n".join(text).rstrip() + "\n"


def _totals(rows: list[dict[str, Any]], seconds: float) -> str:
    counts = {kind: sum(row["tried"] for row in rows if row["kind"] == kind) for kind in KINDS}
    listed = ", ".join(f"{count:,} × {kind}" for kind, count in counts.items() if count)
    return f"All of it took {seconds / 60:.0f} minutes on two cores: {listed}."


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One line for each subject and outcome; counts of the same ones are added."""
    merged: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = (row["subject"], row["outcome"], row["test"])
        merged[key] = merged.get(key, 0) + row["tried"]
    yield "| command or reader | tried | held | again with |"
    yield "|---|--:|---|---|"
    for (subject, outcome, test), tried in sorted(merged.items()):
        yield f"| {_cell(subject)} | {tried:,} | {_cell(outcome)} | `{_cell(f'pytest {shlex.quote(test)}')}` |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _mended(changelog: str) -> Iterator[str]:
    _, _, section = changelog.partition(f"{HEADING}\n")
    section = re.split(r"^#", section, maxsplit=1, flags=re.MULTILINE)[0].strip()
    yield section or "Nothing yet."


def main(results: Path) -> None:
    """Write the page."""
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    PAGE.write_text(page(lines, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
