"""``python -m tests.reliability.report FILE``: write ``tests/RELIABILITY.md`` from the JUnit file of a whole run."""

from __future__ import annotations

import argparse
import ast
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError, run_main
from learned_sparse.core.files import atomic_write

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "RELIABILITY.md"
HEAD = """\
# Reliability

Faults and inputs that the commands and readers are tried with. `make test-faults` tries them all and writes this page;
`make test-slow` tries a few of each. What a test draws depends on its name alone, and a failed test prints it:
`RELIABILITY=full python -m pytest tests/reliability --last-failed -m slow` repeats what has failed.

"""


def main(argv: list[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.report", description=__doc__, allow_abbrev=False)
    parser.add_argument("results", type=Path, help="of pytest --junitxml")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="default: tests/RELIABILITY.md")
    options = parser.parse_args(argv)
    with atomic_write(options.page) as file:
        file.write(page(ElementTree.parse(options.results).getroot(), options.results).encode())  # noqa: S314  (ours)
    return 0


def page(results: ElementTree.Element, source: Path) -> str:
    """The page: one line for each file of tests, with what holds in it."""
    tests = list(results.iter("testcase"))
    failed = [f"{test.get('name')} failed" for test in tests if {part.tag for part in test} & {"failure", "error"}]
    if failed or not tests:
        problem = ", ".join(failed) or "no tests"
        raise LearnedSparseError(f"{source}: {problem}; the page shows a run in which all holds")
    minutes = sum(float(suite.get("time", 0)) for suite in results.iter("testsuite")) / 60
    lines = [f"The last whole run took {minutes:.0f} minutes.", "", "| tests | cases | what holds |", "|---|--:|---|"]
    return HEAD + "\n".join([*lines, *_rows(results)]) + "\n"


def _rows(results: ElementTree.Element) -> Iterator[str]:
    for file in sorted(FOLDER.glob("test_*.py")):
        tests = [test for test in results.iter("testcase") if str(test.get("classname")).endswith(f".{file.stem}")]
        cases = sum(_cases(test) for test in tests)
        if tests:
            holds = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n")[0]
            yield f"| `{file.stem}` | {cases:,} | {holds} |"


def _cases(test: ElementTree.Element) -> int:
    """The cases that a test has recorded, or one."""
    recorded = [found.get("value") for found in test.iter("property") if found.get("name") == "cases"]
    return sum(map(int, filter(None, recorded))) if recorded else 1


if __name__ == "__main__":
    run_main(main)
