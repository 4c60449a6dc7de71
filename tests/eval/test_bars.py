"""The bar chart: well-formed, and as high as its values."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from eval.bars import bar_chart


def test_bars_are_as_high_as_their_values() -> None:
    drawn = bar_chart("A < B", {"one": [0.5, 1.0], "two": [0.0, 0.25]}, ["x", "y & z"])
    root = ElementTree.fromstring(drawn)  # noqa: S314  (our own)
    bars = [rect for rect in root.iter("{http://www.w3.org/2000/svg}rect") if rect.get("width") == "23"]
    assert [float(bar.get("height", "nan")) for bar in bars] == [110, 220, 0, 55]
    floors = {float(bar.get("y", "nan")) + float(bar.get("height", "nan")) for bar in bars}
    assert floors == {278}
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"A < B", "one", "two", "x", "y & z", "0.50", "0.25"} <= texts
