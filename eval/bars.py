"""A bar chart as SVG: groups of bars, one bar for each series, the same series in each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from eval.svg import svg

COLOURS = ("#8c8c8c", "#9ecae1", "#3182bd", "#e6550d", "#31a354", "#756bb1")
_BAR, _GAP, _HEIGHT, _LEFT, _TOP, _BOTTOM = 26, 30, 220, 44, 58, 34


def bar_chart(title: str, groups: Mapping[str, Sequence[float]], series: Sequence[str]) -> str:
    """Bars from 0 to 1, ``groups[name][i]`` being the value of ``series[i]``; the value stands above each bar."""
    group_width = _BAR * len(series)
    width = _LEFT + len(groups) * (group_width + _GAP)
    height = _TOP + _HEIGHT + _BOTTOM
    parts = [*_legend(series), *_grid(width)]
    for place, (name, values) in enumerate(groups.items()):
        left = _LEFT + _GAP / 2 + place * (group_width + _GAP)
        parts += _group(left, name, values, group_width)
    return svg(title, width, height, parts, at=(_LEFT, 18))


def _legend(series: Sequence[str]) -> list[str]:
    parts, left = [], _LEFT
    for colour, name in zip(COLOURS, series, strict=False):
        parts.append(f'<rect x="{left}" y="30" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{left + 17}" y="40">{escape(name)}</text>')
        left += 34 + 7 * len(name)
    return parts


def _grid(width: float) -> list[str]:
    parts = []
    for tenth in range(0, 11, 2):
        y = _TOP + _HEIGHT * (1 - tenth / 10)
        parts.append(f'<line x1="{_LEFT}" x2="{width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e0e0e0"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tenth / 10:.1f}</text>')
    return parts


def _group(left: float, name: str, values: Sequence[float], width: float) -> list[str]:
    parts = []
    for number, value in enumerate(values):
        x, y = left + number * _BAR, _TOP + _HEIGHT * (1 - value)
        size = f'width="{_BAR - 3}" height="{_HEIGHT * value:.1f}"'
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{COLOURS[number]}"/>')
        middle = x + (_BAR - 3) / 2
        parts.append(f'<text x="{middle:.1f}" y="{y - 4:.1f}" text-anchor="middle" font-size="10">{value:.2f}</text>')
    middle = left + width / 2
    parts.append(f'<text x="{middle:.1f}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{escape(name)}</text>')
    return parts
