"""The line chart: well-formed, points at their places, ticks at theirs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from eval.report.curves import Axis, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def parse(drawn: str) -> Any:
    return ElementTree.fromstring(drawn)  # noqa: S314  (our own)


def dots(root: Any) -> list[tuple[float, float]]:
    return [(float(dot.get("cx")), float(dot.get("cy"))) for dot in root.iter(f"{SVG}circle")]


def texts(root: Any) -> list[str]:
    return [text.text for text in root.iter(f"{SVG}text")]


def test_linear_axes() -> None:
    root = parse(line_chart("A < B", {"one & all": [(0, 0), (5, 0.5), (10, 1)]}, Axis("x"), Axis("y")))
    # 480 pixels wide from 80; 260 high down to 52 + 260
    assert dots(root) == [(80, 312), (320, 182), (560, 52)]
    (line,) = root.iter(f"{SVG}polyline")
    assert line.get("points") == "80.0,312.0 320.0,182.0 560.0,52.0"
    assert {"A < B", "one & all", "0.0", "0.2", "1.0", "10", "x", "y"} <= set(texts(root))


def test_ticks_are_round_and_within_the_chart() -> None:
    root = parse(line_chart("t", {"a": [(0, 0.653), (1, 0.761)]}, Axis("x"), Axis("y")))
    texts = [text for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
    ticks = {text.text: round(float(text.get("y")) - 4, 1) for text in texts}
    assert [*ticks] == ["0.64", "0.66", "0.68", "0.70", "0.72", "0.74", "0.76", "0.78"]
    assert [*ticks.values()] == [312, 274.9, 237.7, 200.6, 163.4, 126.3, 89.1, 52]
    level = [line for line in root.iter(f"{SVG}line") if line.get("y1") == line.get("y2")]
    assert [float(line.get("y1")) for line in level] == [*ticks.values()]


def test_logarithmic_axes() -> None:
    x, y = Axis("rank", logarithmic=True), Axis("texts", logarithmic=True)
    root = parse(line_chart("Zipf", {"documents": [(1, 1000), (10, 0.1), (100, 0)]}, x, y))
    assert dots(root) == [(80, 52), (560, 312)]  # a count of 0 has no place
    assert {"1", "10", "0.1", "1,000"} <= set(texts(root))


def test_named_places_stand_at_equal_distances() -> None:
    names = ("5", "10", "all")
    root = parse(line_chart("k", {"a": [(0, 1), (2, 3)], "b": [(1, 2)]}, Axis("k", names=names), Axis("y")))
    assert [x for x, _ in dots(root)] == [80, 560, 320]
    assert {"5", "10", "all"} <= set(texts(root))
    assert len({dot.get("fill") for dot in root.iter(f"{SVG}circle")}) == 2


@pytest.mark.parametrize("points", [[], [(3, 0.25)], [(1, 0), (2, 0)], [(1, float("nan"))], [(1, -2), (2, -2)]])
def test_few_or_equal_points(points: list[tuple[float, float]]) -> None:
    root = parse(line_chart("t", {"a": points}, Axis("x"), Axis("y")))
    assert len(dots(root)) == sum(point[1] == point[1] for point in points)
    assert all(80 <= x <= 560 and 52 <= y <= 312 for x, y in dots(root))


def test_a_long_legend_takes_several_rows() -> None:
    root = parse(line_chart("t", {f"setting {number}": [(0, 1)] for number in range(9)}, Axis("x"), Axis("y")))
    rows = {box.get("y") for box in root.iter(f"{SVG}rect") if box.get("height") == "4"}
    assert rows == {"30", "48", "66"}
    assert {float(text.get("y")) for text in root.iter(f"{SVG}text") if text.text == "x"} == {312 + 36 + 36}


def test_no_lines() -> None:
    assert dots(parse(line_chart("nothing", {}, Axis("x"), Axis("y")))) == []
