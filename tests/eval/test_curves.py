"""The line chart: well-formed SVG with the right points, ticks and names."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from eval.report import Axis, line_chart

pytest.importorskip("matplotlib")

SVG = "{http://www.w3.org/2000/svg}"


def parse(svg: str) -> Any:
    return ElementTree.fromstring(svg)  # noqa: S314  (our own)


def dots(root: Any) -> list[list[tuple[float, float]]]:
    """Places of the dots of each line."""
    groups = [group for group in root.iter(f"{SVG}g") if group.get("id", "").startswith("line-")]
    return [[(float(dot.get("x")), float(dot.get("y"))) for dot in group.iter(f"{SVG}use")] for group in groups]


def texts(root: Any) -> set[str]:
    return {text.text for text in root.iter(f"{SVG}text")}


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
    (((x1, y1), (x2, y2), (x3, y3)),) = dots(root)  # a count of 0 has no logarithm
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
        assert [len(places) for places in dots(parse(chart))] == [len(points) for points in lines.values()]
        assert chart == line_chart("t", lines, x, Axis("y"))
