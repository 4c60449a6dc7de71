"""Charts: well-formed SVG with the right points, ticks and names; the figures of a leaderboard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from scipy import stats

from eval.report import Axis, line_chart, write_report
from eval.report import figures as figures_module
from eval.report.figures import NAMES, figures
from eval.report.results import COSTS
from learned_sparse.core.errors import LearnedSparseError
from tests.eval.report import report_results
from tests.eval.report.report_results import HOSTILE, made_up_results, published_only

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

SVG = "{http://www.w3.org/2000/svg}"


COLUMNS = ("msmarco-mini", "scifact")


def parse(svg: str | bytes) -> Any:
    return ElementTree.fromstring(svg)  # noqa: S314  (our own)


def dots(root: Any) -> list[list[tuple[float, float]]]:
    """Coordinates of the dots of each line."""
    groups = [group for group in root.iter(f"{SVG}g") if group.get("id", "").startswith("line-")]
    return [[(float(dot.get("x")), float(dot.get("y"))) for dot in group.iter(f"{SVG}use")] for group in groups]


def texts(root: Any) -> set[str]:
    return {text.text.strip() for text in root.iter(f"{SVG}text")}


@pytest.fixture(scope="module")
def leaderboard() -> dict[str, bytes]:
    """Figures of a leaderboard with hostile names and costs from 0.002 to 4.4."""
    results = made_up_results(names=HOSTILE, columns=COLUMNS)
    for number, cell in enumerate(results.content["cells"]):
        if cell["costs"]:
            cell["costs"]["FLOPS"] = 0.002 * 3 ** (number % 8)
    return figures(results)


def test_linear_axes() -> None:
    root = parse(line_chart("A < B", {"one & all": [(0, 0), (5, 0.5), (10, 1)]}, Axis("x"), Axis("y")))
    (((left, low), (middle_x, middle_y), (right, high)),) = dots(root)
    assert (middle_x, middle_y) == pytest.approx(((left + right) / 2, (low + high) / 2))
    assert left < right
    assert low > high
    assert {"A < B", "one & all", "0.2", "1", "10", "x", "y"} <= texts(root)


def test_logarithmic_axes() -> None:
    x, y = Axis("rank", logarithmic=True), Axis("texts", logarithmic=True)
    lines = {"documents": [(1, 1_000_000), (10, 1000), (100, 0), (float("nan"), 1), (100, 1)]}
    root = parse(line_chart("Zipf", lines, x, y))
    (((x1, y1), (x2, y2), (x3, y3)),) = dots(root)  # 0 has no logarithm
    assert (x2, y2) == pytest.approx(((x1 + x3) / 2, (y1 + y3) / 2))
    assert {"1", "10", "1,000,000"} <= texts(root)


def test_named_values_stand_at_equal_distances() -> None:
    names = ("5", "10", "all")
    root = parse(line_chart("k", {"a": [(0, 1), (2, 3)], "b": [(1, 2)]}, Axis("k", names=names), Axis("y")))
    ((first, _), (last, _)), ((middle, _),) = dots(root)
    assert middle == pytest.approx((first + last) / 2)
    assert {"5", "10", "all", "a", "b"} <= texts(root)


@pytest.mark.parametrize("lines", [{}, {"a": []}, {"a": [(3, 0.25)]}, {"_b": [(1, -2), (2, -2)]}])
def test_few_or_equal_points(lines: dict[str, list[tuple[float, float]]]) -> None:
    for x in (Axis("x"), Axis("x", logarithmic=True)):
        chart = line_chart("t", lines, x, Axis("y"))
        assert [len(line_dots) for line_dots in dots(parse(chart))] == [len(points) for points in lines.values()]
        assert chart == line_chart("t", lines, x, Axis("y"))


def test_figures_show_rows_and_columns(leaderboard: dict[str, bytes]) -> None:
    assert set(leaderboard) == set(NAMES)
    assert {"BM25", "scifact"} <= texts(parse(leaderboard["scores.svg"]))
    for name in ("tradeoff-flops.svg", "tradeoff-ms-per-query.svg"):
        assert {"SPLADE-FLOPS", "scifact"} <= texts(parse(leaderboard[name]))


def test_a_panel_has_the_best_row_of_each_system_with_its_interval() -> None:
    results = made_up_results()
    column, measure = results.columns[0], results.quantities(results.columns[0])[0]
    shown = figures_module._best_marks(results, column)
    rows = {row["name"]: row for row in results.rows}
    assert len(shown) <= figures_module.MOST_MARKS
    assert "BM25" in {mark.name for mark in shown}
    assert len({mark.name.split()[0] for mark in shown if mark.kind == "word pieces"}) >= 4
    for mark in shown:
        assert (mark.kind == "published") == (rows[mark.name]["kind"] == "published")
        if mark.kind != "published":
            values = list(results.per_query[column["name"]][mark.name][measure.key].values())
            low, high = stats.ttest_1samp(values, 0).confidence_interval()
            assert (mark.score - mark.below, mark.score + mark.above) == pytest.approx((low, high))


def test_curves_of_more_than_eight_points_have_panels_of_their_own() -> None:
    results = made_up_results()
    column = results.columns[0]
    flops = next(cost for cost in COSTS if cost.key == "FLOPS")
    titles = [title for _, title, _ in figures_module._tradeoff_panels(results, column, flops)]
    assert titles == ["msmarco-mini", "msmarco-mini: SPLADE-FLOPS, SpaDE, k"]
    for row in results.rows[2:4]:  # two more points
        row["curve"] = "SPLADE-FLOPS"  # type: ignore[index]
    panels = figures_module._tradeoff_panels(results, column, flops)
    assert [title for _, title, _ in panels] == ["msmarco-mini", "msmarco-mini: SPLADE-FLOPS", "msmarco-mini: SpaDE, k"]
    assert all(sum(map(len, marks.values())) <= figures_module.MOST_MARKS for _, _, marks in panels)


def test_panels_of_curves_of_one_column_have_the_same_axes() -> None:
    results = made_up_results()
    for row in results.rows[2:4]:  # two more points, so that each curve has a panel of its own
        row["curve"] = "SPLADE-FLOPS"  # type: ignore[index]
    column = results.columns[0]["name"]
    flops = next(cost for cost in COSTS if cost.key == "FLOPS")
    figure = figures_module._tradeoff(results, flops)
    curves = [panel for panel in figure.axes if panel.get_title().startswith(f"{column}: ")]
    assert len(curves) == 2
    axes = {(panel.get_xscale(), panel.get_xlim(), panel.get_ylim()) for panel in curves}
    assert len(axes) == 1
    ((_, (left, right), (low, high)),) = axes
    marks = [mark for title, _, groups in figures_module._tradeoff_panels(results, results.columns[0], flops)
             if title != column for group in groups.values() for mark in group]  # fmt: skip
    assert marks
    assert all(left < mark.cost < right for mark in marks)
    assert all(low < mark.score - mark.below and mark.score + mark.above < high for mark in marks)


def test_a_long_curve_keeps_its_ends() -> None:
    marks = [figures_module._Mark(str(number), "word pieces", 0.5, 0.0, 0.0, float(number)) for number in range(20)]
    drawn = figures_module._thinned(marks)
    assert len(drawn) == figures_module.MOST_MARKS
    assert (drawn[0], drawn[-1]) == (marks[0], marks[-1])
    assert figures_module._thinned(marks[:5]) == marks[:5]


def test_flops_of_words_are_not_beside_those_of_word_pieces() -> None:
    flops, time = (next(cost for cost in COSTS if cost.key == key) for key in ("FLOPS", "ms/query"))
    panel = Figure().subplots()
    marks = {"BM25": [figures_module._Mark("BM25", "words", 0.4, 0.1, 0.1, 0.3)]}
    for cost, line in ((flops, True), (time, False)):
        drawn = figures_module._draw_tradeoff(panel, marks, ["BM25"], cost)
        assert isinstance(drawn["BM25"], Line2D) == line


def test_hostile_names_are_drawn_as_text(leaderboard: dict[str, bytes]) -> None:
    assert {*HOSTILE[:2], "| `x` *y* $z$"} <= texts(parse(leaderboard["scores.svg"]))
    assert "_under" in texts(parse(leaderboard["tradeoff-flops.svg"]))


def test_a_wide_range_of_costs_has_plain_numbers_on_its_axis(leaderboard: dict[str, bytes]) -> None:
    labels = texts(parse(leaderboard["tradeoff-flops.svg"]))
    assert {"0.01", "0.1", "1"} <= labels
    assert not [text for text in labels if "mathdefault" in text]


def test_published_rows_alone_are_drawn() -> None:
    names = [f"{name}.{suffix}" for name in ("scores", "tradeoff-flops", "tradeoff-pisa") for suffix in ("svg", "png")]
    assert list(figures(published_only())) == names


def test_a_figure_without_data_is_removed(tmp_path: Path) -> None:
    results, per_query = report_results.made_up(queries=2)
    (tmp_path / "tradeoff-flops.svg").write_text("of other results", encoding="utf-8")
    (tmp_path / "mine.svg").write_text("not ours", encoding="utf-8")
    for cell in results["cells"]:
        cell.update({"scores": {}, "costs": None, "verdicts": {}})
    write_report(report_results.write(tmp_path, results, per_query))
    names = {path.name for path in tmp_path.iterdir()}
    inputs = {"results.json", "per_query.json", "trainings.json"}
    assert names == {"README.md", "cells.csv", "index.html", "mine.svg", "queries", *inputs}


def test_without_matplotlib_the_pages_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    folder = report_results.write(tmp_path, *report_results.made_up(queries=2))
    with pytest.raises(LearnedSparseError, match=r"learned-sparse\[report\]"):
        write_report(folder)
    assert (folder / "index.html").exists()
