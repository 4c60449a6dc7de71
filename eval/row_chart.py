"""A chart of named rows as SVG: one horizontal bar each, its number behind it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from eval.svg import svg

_ROW, _LEFT, _WIDTH, _TOP = 22, 190, 380, 40
_COLOURS = {"SpaDE": "#3182bd", "UHD": "#31a354"}
_OTHER = "#8c8c8c"


def row_chart(title: str, values: Mapping[str, float]) -> str:
    """Bars from 0 to 1 in the order given; the first word of a name decides the colour."""
    parts: list[str] = []
    for place, (name, value) in enumerate(values.items()):
        y = _TOP + place * _ROW
        colour = _COLOURS.get(name.split()[0], _OTHER)
        bar = f'width="{_WIDTH * value:.1f}" height="{_ROW - 6}" fill="{colour}"'
        parts += [
            f'<text x="{_LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{_LEFT}" y="{y}" {bar}/>',
            f'<text x="{_LEFT + _WIDTH * value + 6:.1f}" y="{y + 12}">{value:.3f}</text>',
        ]
    return svg(title, _LEFT + _WIDTH + 60, _TOP + _ROW * len(values) + 12, parts, at=(12, 22))
