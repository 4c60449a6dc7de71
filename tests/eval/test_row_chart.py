"""The chart of rows: one bar each, as long as its value, names escaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from eval.row_chart import row_chart


def test_bars_are_as_long_as_their_values() -> None:
    drawn = row_chart("MRR@10 <test>", {"bm25": 1.0, "SpaDE k=2": 0.5, "UHD a & b": 0.0})
    root = ElementTree.fromstring(drawn)  # noqa: S314  (made above)
    bars = [bar for bar in root.iter("{http://www.w3.org/2000/svg}rect") if bar.get("x")]
    widths = [float(bar.get("width", "")) for bar in bars]
    assert widths[0] > 0
    assert widths[1:] == [widths[0] / 2, 0.0]
    assert len({bar.get("fill") for bar in bars}) == 3
    assert re.findall(r">(\d\.\d{3})<", drawn) == ["1.000", "0.500", "0.000"]
    assert "UHD a &amp; b" in drawn
