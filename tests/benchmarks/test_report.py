"""Tables are made from the results, and README.md is compared with them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from learned_sparse.core.errors import LearnedSparseError
from tests.benchmarks import encoding, quality_table, report, run
from tests.benchmarks.agreement import agreement, require_same, spread
from tests.benchmarks.targets import TARGETS, Measurement, Target

ABOUT: dict[str, Any] = {
    "toy": False, "seconds": 61.2, "peak_mb": 812.5, "versions": {"torch": "2.9", "numpy": "2.4"},
    "environment": {
        "cpu": "A Processor", "cores": 2, "flags": ["avx2"], "python": "3.11.7", "java": "21", "torch_threads": 2,
        "load_before": [0.1, 0.25, 3.0],
    },
}  # fmt: skip
SIZES = {
    "shape": "6 layers, 384",
    "texts": 4,
    "words": 56.0,
    "tokens": 80.0,
    "terms": 190.0,
    "padding": 1.8,
    "rounds": 5,
}
EQUAL = {"cosine_mean": 1.0, "within_one": 1.0}
MODEL = "6 layers, 384"
RATES = {"pyserini": 5.0, "openvino fp32": 10.0, "openvino int8": 20.0, "learned_sparse fp32": 30.0}
ENCODING = {
    **ABOUT, "sizes": {MODEL: SIZES}, "missing": {MODEL: {"openvino bf16": "no bf16 instructions"}}, "engines": {},
    "rows": [
        {
            "model": MODEL, "contender": name, "documents_per_second": rate, "best_documents_per_second": rate,
            "agreement": EQUAL,
        }
        for name, rate in RATES.items()
    ],
    "ratios": {
        MODEL: {
            "learned_sparse fp32/pyserini": 6.0, "learned_sparse fp32/openvino fp32": 3.0,
            "learned_sparse fp32/openvino int8": 1.2,
        },
    },
}  # fmt: skip


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, Path]:
    """A results folder with one benchmark, and a README with the markers."""
    results, readme = tmp_path / "results", tmp_path / "README.md"
    results.mkdir()
    (results / "encoding.json").write_text(json.dumps(ENCODING))
    readme.write_text(f"# Title\n\n{report.BEGIN}\nold\n{report.END}\n\nThe end \\1.\n")
    return results, readme


def call(paths: tuple[Path, Path], *options: str) -> int:
    return report.main(["--results", str(paths[0]), "--readme", str(paths[1]), *options])


def test_the_table_is_between_the_markers(paths: tuple[Path, Path]) -> None:
    assert call(paths) == 0
    text = paths[1].read_text()
    assert text.startswith(f"# Title\n\n{report.BEGIN}\n| | ours")
    assert text.endswith("\n\nThe end \\1.\n")
    assert "old" not in text
    assert (
        "both fp32: against the fastest other engine | 30.0 documents/s (fp32) | 10.0 (openvino fp32) | 3.00 × |"
        in text
    )
    assert "int8 too | 30.0 documents/s (fp32) | 20.0 (openvino int8) | 1.20 × |" in text
    assert "open 500,000 distinct terms" not in text  # not measured on this machine
    assert "A Processor, 2 cores (avx2); Python 3.11.7, Java 21; torch 2.9." in text


def test_every_target_is_beside_the_results(paths: tuple[Path, Path]) -> None:
    call(paths)
    text = (paths[0] / "README.md").read_text()
    assert "int8 too | 30.0 documents/s (fp32) | 20.0 (openvino int8) | 1.20 × | ≥ 1.25 × | not met |" in text
    assert (
        "both bf16: against the fastest other engine | | | | ≥ 1.25 × | openvino bf16: no bf16 instructions |" in text
    )
    assert "open 500,000 distinct terms: against Pyserini | | | | ≥ 5 × | not measured |" in text


def test_all_tables_on_demand(paths: tuple[Path, Path], tmp_path: Path) -> None:
    assert call(paths, "--tables", str(tmp_path / "tables.md")) == 0
    assert "old" in paths[1].read_text()
    text = (tmp_path / "tables.md").read_text()
    assert encoding.markdown(ENCODING) in text
    assert "| openvino bf16 | not run: no bf16 instructions |" in text
    assert "load before: 0.10, 0.25, 3.00; 61 s; peak memory 812 MB." in text


def test_check_reports_a_changed_table(paths: tuple[Path, Path]) -> None:
    with pytest.raises(LearnedSparseError, match="differs from the results"):
        call(paths, "--check")
    assert "old" in paths[1].read_text()
    call(paths)
    assert call(paths, "--check") == 0
    changed = copy.deepcopy(ENCODING)
    changed["ratios"][MODEL]["learned_sparse fp32/openvino fp32"] = 7.0
    (paths[0] / "encoding.json").write_text(json.dumps(changed))
    with pytest.raises(LearnedSparseError, match=r"README\.md"):
        call(paths, "--check")


def test_a_readme_without_markers_is_refused(paths: tuple[Path, Path]) -> None:
    paths[1].write_text("# Title\n")
    with pytest.raises(LearnedSparseError, match="markers of the table are missing"):
        call(paths)


def test_toy_results_are_refused(paths: tuple[Path, Path]) -> None:
    (paths[0] / "encoding.json").write_text(json.dumps({**ENCODING, "toy": True}))
    with pytest.raises(LearnedSparseError, match="a toy result"):
        call(paths)


def test_the_committed_tables_equal_those_of_the_results(root: Path) -> None:
    if report.BEGIN in (root / "README.md").read_text("utf-8"):
        assert report.main(["--check"]) == 0
    else:
        assert not report.read_results(run.RESULTS), "README.md lacks the markers for the existing results"


def test_targets_read_real_benchmarks() -> None:
    assert {target.benchmark for target in TARGETS} <= set(run.BENCHMARKS)
    assert len({target.what for target in TARGETS}) == len(TARGETS)


@pytest.mark.parametrize(
    ("is_maximum", "ratio", "met"), [(False, 2.0, True), (False, 1.99, False), (True, 2.0, True), (True, 2.1, False)]
)
def test_a_bound_is_a_minimum_or_a_maximum(is_maximum: bool, ratio: float, met: bool) -> None:
    assert (
        Target(what="", benchmark="", bound=2.0, find=lambda _: Measurement("", "", 0.0), is_maximum=is_maximum).met(
            ratio
        )
        is met
    )


def test_agreement_of_vectors() -> None:
    ours = {"a": {"x": 3, "y": 4}, "b": {}}
    assert agreement(ours, ours)["cosine_least"] == 1.0
    facts = agreement(ours, {"a": {"x": 3, "z": 4}, "b": {}})
    assert (facts["cosine_least"], facts["largest_difference"]) == (0.36, 4)
    assert (facts["equal_impacts"], facts["within_one"]) == (0.33333, 0.33333)
    with pytest.raises(RuntimeError, match="gives other vectors"):
        require_same("peer", facts)
    with pytest.raises(RuntimeError, match="nothing to compare"):
        agreement(ours, {"a": {"x": 3}})
    assert spread({"a": {"x": 1}, "b": {"y": 1}}) == 0.0


def test_quality_at_equal_minutes() -> None:
    """Contenders that were not tested have dev scores only; differences are those of the trained collections."""
    bm25 = {"a test": {f"q{number}": 0.5 for number in range(40)}, "z test": {"q": 0.75}}

    def seeds(*means: float) -> list[dict[str, dict[str, float]]]:
        return [{"a test": dict.fromkeys(bm25["a test"], mean), "z test": {"q": 0.25}} for mean in means]

    result = {
        "measure": "nDCG@10", "minutes": 8, "reference": "distilled",
        "order": ["plain", "distilled", "peer"], "timed_on": "A processor",
        "titles": {"plain": "ours: plain", "distilled": "ours: distilled", "peer": "P"},
        "steps": {"plain": 100, "distilled": 90, "peer": 30, "distilled, 4 times the minutes": 360},
        "dev": {name: {"0.0001": 0.4, "0.0002": 0.45} for name in ("plain", "distilled", "peer")},
        "sizes": {"batch": 16, "hard_negatives": 2, "training_queries": 12000, "teacher_steps": 400},
        "machines": ["A", "B"], "precision": "bf16", "reranked": {"BM25": 0.5, "teacher": 0.875},
        "trained": ["a test"], "bm25": bm25, "curve": [],
        "tests": {
            "plain": seeds(0.5, 0.5, 0.5), "distilled": seeds(0.55, 0.6, 0.65),
            "distilled, 4 times the minutes": seeds(0.7, 0.7, 0.7),
        },
    }  # fmt: skip
    lines = quality_table.markdown(result).splitlines()
    assert lines[0] == "| nDCG@10 | steps | dev | a test | z test | minus BM25 | distilled minus this |"
    assert lines[2] == "| BM25 |  | 0.500 | 0.500 | 0.750 |  | +0.100 (-0.024 to +0.224) |"
    assert lines[3].startswith(
        "| ours: plain | 100 | 0.450 | 0.500 ± 0.000 | 0.250 ± 0.000 | +0.000 (+0.000 to +0.000) |"
    )
    assert lines[4].endswith("| 0.600 ± 0.050 | 0.250 ± 0.000 | +0.100 (-0.024 to +0.224) |  |")
    assert lines[5].startswith("| ours: distilled, 4 times the minutes | 360 |  | 0.700 ± 0.000 |")
    assert lines[6] == "| P | 30 | 0.450 |  |  |  |  |"
    assert "re-ranks BM25's first hits of dev queries from 0.500 to 0.875" in lines[-3]
    assert lines[7:9] == [
        "",
        (
            "Above BM25 on each collection: distilled: a test +0.100 (-0.024 to +0.224); "
            "distilled, 4 times the minutes: a test +0.200 (+0.200 to +0.200)."
        ),
    ]
    assert "the steps of 8 minutes on one core of A processor" in lines[10]
    assert lines[-1].endswith(" A and B, bf16.")
    assert quality_table.summary(result).splitlines() == [*lines[:6], *lines[7:9]]


def test_the_learning_curve_has_a_table_and_a_line_for_each_number_of_queries() -> None:
    result = {
        "measure": "nDCG@10", "reference": "distilled", "titles": {"distilled": "ours: distilled"},
        "bm25_dev": {"a": 0.5, "b": 0.25},
        "curve": [
            {"queries": 8000, "minutes": 32.0, "steps": 1144, "dev": {"a": 0.75, "b": 0.5}},
            {"queries": 8000, "minutes": 0.5, "steps": 18, "dev": {"a": 0.25, "b": 0.25}},
            {"queries": 26740, "minutes": 32.0, "steps": 1144, "dev": {"a": 0.8, "b": 0.6}},
        ],
    }  # fmt: skip
    lines = quality_table.curve_table(result).splitlines()
    assert lines[2:8] == [
        "| training queries | minutes | steps | a | b | mean |",
        "|--:|--:|--:|--:|--:|--:|",
        "| BM25 |  |  | 0.500 | 0.250 | 0.375 |",
        "| 8,000 | 0.5 | 18 | 0.250 | 0.250 | 0.250 |",
        "| 8,000 | 32 | 1,144 | 0.750 | 0.500 | 0.625 |",
        "| 26,740 | 32 | 1,144 | 0.800 | 0.600 | 0.700 |",
    ]
    assert lines[-1].endswith("](quality-curve.svg)")
    figure = quality_table.curve_figure(result)
    assert [f'id="line-{number}"' in figure for number in range(4)] == [True, True, True, False]
    assert "26,740 queries" in figure
