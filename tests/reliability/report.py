"""``python -m tests.reliability.report RESULTS``: write ``tests/RELIABILITY.md`` from the record of a whole run."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from learned_sparse.core.errors import run_main
from learned_sparse.core.files import atomic_write
from learned_sparse.core.settings import CommandParser

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "tests" / "RELIABILITY.md"
KINDS = {
    "kill": (
        "Kills",
        "SIGINT, SIGTERM and SIGKILL before a random file operation or at a random time; the command is given again",
    ),
    "failed write": (
        "Failing writes",
        "full disk, file too large, input/output error, no permission, a folder that vanishes, no memory",
    ),
    "corruption": ("Damaged input", "a flipped bit, a lost end, a removed file, parts of another run"),
    "race": ("Several at once", "two commands with one output, a search while its index is replaced, threads"),
    "input": ("Generated input", "random and mutated texts, compared with slow readings that are obviously right"),
}
"""Title of each kind of case, and what is done."""
HEAD = """\
# Reliability

Faults and inputs that the commands and readers are tried with. `make test-faults` tries them all and writes this
page; `make test-slow` tries a few of each. A kill that failed prints a line `repeat with RELIABILITY_REPLAY=...`; the
test with this variable set repeats these kills only. `python -m tests.reliability.report .reliability.jsonl --cases
FILE` lists every case of the last `make test-faults`, by command and reader, with the test that repeats it.
"""
Case = Mapping[str, Any]
"""What ``scale.record`` wrote."""


def main(argv: list[str] | None = None) -> int:
    """Write the summary, or the list of cases with ``--cases``."""
    options = _parser().parse_args(argv)
    cases = [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    path, text = (options.cases, case_list(cases)) if options.cases else (options.page, summary(cases))
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))
    print(f"written: {path}")
    return 0


def summary(cases: Sequence[Case]) -> str:
    """The page: what each kind of case does, and one line for each kind and file of tests."""
    minutes = sum(case["tried"] for case in cases if case["kind"] == "time") / 60
    lines = [HEAD, *(f"- **{title}**: {about}." for title, about in KINDS.values()), ""]
    lines += [f"The last whole run took {minutes:.0f} minutes.", ""]
    lines += ["| kind | commands and readers | cases | what held | tests |", "|---|--:|--:|---|---|"]
    for kind, (title, _) in KINDS.items():
        of_kind = [case for case in cases if case["kind"] == kind]
        for file in sorted({_file(case) for case in of_kind}):
            chosen = [case for case in of_kind if _file(case) == file]
            subjects = {case["subject"] for case in chosen}
            tried = sum(case["tried"] for case in chosen)
            held = "; ".join(dict.fromkeys(re.sub(r"\d[\d,]* ", "", case["outcome"]) for case in chosen))
            lines.append(f"| {title} | {len(subjects):,} | {tried:,} | {_cell(held)} | `{file}` |")
    return "\n".join(lines) + "\n"


def case_list(cases: Sequence[Case]) -> str:
    """One line for each subject, outcome and test; counts of the same ones are added."""
    lines = ["# Cases of the reliability tests"]
    for kind, (title, about) in KINDS.items():
        chosen = [case for case in cases if case["kind"] == kind]
        if chosen:
            lines += [f"\n## {title}\n\n{about.capitalize()}.\n", *_table(chosen)]
    return "\n".join(lines) + "\n"


def _table(cases: Sequence[Case]) -> Iterator[str]:
    merged: dict[tuple[str, str, str], int] = {}
    for case in cases:
        key = (case["subject"], case["outcome"], case["test"])
        merged[key] = merged.get(key, 0) + case["tried"]
    yield "| command or reader | tried | held | again with |"
    yield "|---|--:|---|---|"
    for (subject, outcome, test), tried in sorted(merged.items()):
        yield f"| {_cell(subject)} | {tried:,} | {_cell(outcome)} | `{_cell(f'pytest {shlex.quote(test)}')}` |"


def _file(case: Case) -> str:
    return Path(case["test"].partition("::")[0]).name


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="python -m tests.reliability.report", description=__doc__)
    add = parser.add_argument
    add("results", type=Path, metavar="RESULTS", help="record of a run: .reliability.jsonl of make test-faults")
    add("--page", type=Path, default=PAGE, metavar="FILE", help="the summary (default: tests/RELIABILITY.md)")
    add("--cases", type=Path, metavar="FILE", help="list every case in this file instead; the summary stays as it is")
    return parser


if __name__ == "__main__":
    run_main(main)
