"""The page of the reliability tests."""

from pathlib import Path

import pytest

from learned_sparse.core.errors import LearnedSparseError
from tests.reliability import report

RESULTS = """<testsuites><testsuite time="125.0">
<testcase classname="tests.reliability.test_kills" name="a">
  <properties><property name="cases" value="9" /></properties></testcase>
<testcase classname="tests.reliability.test_kills" name="b"></testcase>
<testcase classname="tests.eval.reproduce.test_reproduce" name="c">{failure}</testcase>
</testsuite></testsuites>"""


def test_one_line_for_each_file_of_a_run_in_which_all_holds(tmp_path: Path) -> None:
    results, page = tmp_path / "results.xml", tmp_path / "page.md"
    results.write_text(RESULTS.format(failure=""))
    assert report.main([str(results), "--page", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "The last whole run took 2 minutes." in text
    (row,) = [line for line in text.splitlines() if line.startswith("| `")]
    assert row.startswith("| `test_kills` | 10 | Commands that write are killed at any moment: ")
    results.write_text(RESULTS.format(failure="<failure />"))
    with pytest.raises(LearnedSparseError, match=r"results\.xml: c failed; the page"):
        report.main([str(results), "--page", str(page)])
    assert page.read_text(encoding="utf-8") == text
