"""Tables are made from the results, and README.md is compared with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from tests.benchmarks import quality_table, report, run
from tests.benchmarks.targets import TARGETS, Measurement, Target


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """The committed result of ``encoding`` alone, and a README with the markers."""
    results, readme = tmp_path / "results", tmp_path / "README.md"
    results.mkdir()
    shutil.copy(run.RESULTS / "encoding.json", results)
    readme.write_text(f"# Title\n\n{report.BEGIN}\nold\n{report.END}\n\nThe end \\1.\n")
    return results, readme


def call(paths: tuple[Path, Path], *options: str) -> int:
    return report.main(["--results", str(paths[0]), "--readme", str(paths[1]), *options])


def test_the_table_is_between_the_markers_and_check_reports_a_change(paths: tuple[Path, Path]) -> None:
    with pytest.raises(LearnedSparseError, match="differs from the results"):
        call(paths, "--check")
    assert "old" in paths[1].read_text()
    assert call(paths) == call(paths, "--check") == 0
    text = paths[1].read_text()
    assert text.startswith(f"# Title\n\n{report.BEGIN}\n| | ours")
    assert text.endswith("\n\nThe end \\1.\n")
    assert (
        "open 500,000 distinct terms: against Pyserini | | | | ≥ 5 × | not measured |"
        in (paths[0] / "README.md").read_text()
    )
    changed = json.loads((paths[0] / "encoding.json").read_text())
    for line in changed["rows"]:
        line["documents_per_second"] *= 2
    (paths[0] / "encoding.json").write_text(json.dumps(changed))
    with pytest.raises(LearnedSparseError, match=r"README\.md"):
        call(paths, "--check")
    (paths[0] / "encoding.json").write_text(json.dumps({**changed, "toy": True}))
    with pytest.raises(LearnedSparseError, match=r"encoding\.json: a toy result"):
        call(paths)
    paths[1].write_text("# Title\n")
    (paths[0] / "encoding.json").unlink()
    with pytest.raises(LearnedSparseError, match="markers of the table are missing"):
        call(paths)


def test_the_committed_tables_are_those_of_the_results(tmp_path: Path) -> None:
    assert report.main(["--check"]) == 0
    assert report.main(["--tables", str(tmp_path / "tables.md")]) == 0
    results = report.read_results(run.RESULTS)
    assert [name for name in results if f"\n## {name}\n" not in (tmp_path / "tables.md").read_text()] == []
    assert {target.benchmark for target in TARGETS} <= results.keys() <= set(run.BENCHMARKS)


@pytest.mark.parametrize(
    ("is_maximum", "ratio", "met"), [(False, 2.0, True), (False, 1.99, False), (True, 2.0, True), (True, 2.1, False)]
)
def test_a_bound_is_a_minimum_or_a_maximum(is_maximum: bool, ratio: float, met: bool) -> None:
    empty = Measurement("", "", 0.0)
    assert Target(what="", benchmark="", bound=2.0, find=lambda _: empty, is_maximum=is_maximum).met(ratio) is met


def test_quality_at_equal_minutes() -> None:
    """Contenders that were not tested have dev scores only; differences are those of the trained collections."""
    bm25 = {"a test": {f"q{number}": 0.5 for number in range(40)}, "z test": {"q": 0.75}}

    def seeds(*means: float) -> list[dict[str, dict[str, float]]]:
        return [{"a test": dict.fromkeys(bm25["a test"], mean), "z test": {"q": 0.25}} for mean in means]

    result: dict[str, Any] = {
        "measure": "nDCG@10", "minutes": 8, "reference": "distilled",
        "order": ["plain", "distilled", "peer"], "timed_on": "A processor",
        "titles": {"plain": "ours: plain", "distilled": "ours: distilled", "peer": "P"},
        "steps": {"plain": 100, "distilled": 90, "peer": 30, "distilled, 4 times the minutes": 360},
        "dev": {name: {"0.0001": 0.4, "0.0002": 0.45} for name in ("plain", "distilled", "peer")},
        "sizes": {"batch": 16, "hard_negatives": 2, "training_queries": 12000, "teacher_steps": 400},
        "machines": ["A", "B"], "precision": "bf16", "reranked": {"BM25": 0.5, "teacher": 0.875},
        "trained": ["a test"], "bm25": bm25, "bm25_dev": {"a": 0.5, "b": 0.25},
        "curve": [{"queries": size, "minutes": 32.0, "steps": 9, "dev": {"a": 0.75, "b": 0.5}} for size in (9, 8)],
        "tests": {
            "plain": seeds(0.5, 0.5, 0.5), "distilled": seeds(0.55, 0.6, 0.65),
            "distilled, 4 times the minutes": seeds(0.7, 0.7, 0.7),
        },
    }  # fmt: skip
    lines = quality_table.markdown(result).splitlines()
    assert lines[2] == "| BM25 |  | 0.500 | 0.500 | 0.750 |  | +0.100 (-0.024 to +0.224) |"
    assert lines[4].endswith("| 0.600 ± 0.050 | 0.250 ± 0.000 | +0.100 (-0.024 to +0.224) |  |")
    assert lines[5].startswith("| ours: distilled, 4 times the minutes | 360 |  | 0.700 ± 0.000 |")
    assert lines[6] == "| P | 30 | 0.450 |  |  |  |  |"
    assert lines[8] == (
        "Above BM25 on each collection: distilled: a test +0.100 (-0.024 to +0.224); "
        "distilled, 4 times the minutes: a test +0.200 (+0.200 to +0.200)."
    )
    assert lines[-2:] == ["| 8 | 32 | 9 | 0.750 | 0.500 | 0.625 |", "| 9 | 32 | 9 | 0.750 | 0.500 | 0.625 |"]
