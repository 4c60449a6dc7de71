"""The page of the reliability tests, and the list of their cases."""

import json
from pathlib import Path

from tests.reliability import report

CASES = [
    ("kill", "encode-8, SIGINT", 2, "whole", "tests/reliability/test_kills.py::test_a[encode]"),
    ("kill", "encode-8, SIGINT", 3, "whole", "tests/reliability/test_kills.py::test_a[encode]"),
    ("kill", "prune|3, SIGINT", 4, "whole", "tests/reliability/test_kills.py::test_a[prune]"),
    ("input", "YAML: recipe", 1_000, "1,148 read, 52 refused", "tests/reliability/test_yaml_readers.py::test_b"),
    ("time", "all tests", 120, "seconds", "tests/reliability"),
]


def test_summary_and_cases(tmp_path: Path) -> None:
    keys = ("kind", "subject", "tried", "outcome", "test")
    results, page, cases = (tmp_path / name for name in ("results.jsonl", "page.md", "cases.md"))
    results.write_text("".join(json.dumps(dict(zip(keys, case, strict=True))) + "\n" for case in CASES))
    assert report.main([str(results), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "The last whole run took 2 minutes." in text
    assert text.split("|--:|--:|---|---|\n")[1].splitlines() == [
        "| Kills | 2 | 9 | whole | `test_kills.py` |",
        "| Generated input | 1 | 1,000 | read, refused | `test_yaml_readers.py` |",
    ]

    assert report.main([str(results), "--page", str(page), "--cases", str(cases)]) == 0
    assert page.read_text(encoding="utf-8") == text
    assert [line for line in cases.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:3] == [
        "| encode-8, SIGINT | 5 | whole | `pytest 'tests/reliability/test_kills.py::test_a[encode]'` |",
        "| prune\\|3, SIGINT | 4 | whole | `pytest 'tests/reliability/test_kills.py::test_a[prune]'` |",
    ]
