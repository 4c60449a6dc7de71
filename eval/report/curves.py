"""A line chart as SVG: points joined in the order given, on linear, logarithmic or named axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#3182bd", "#e6550d", "#31a354", "#756bb1", "#8c8c8c", "#b15928", "#17becf", "#e377c2")
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 480, 260, 80, 30, 34, 44
_ROW = 18  # of the legend
_CHARACTER = 7  # pixels, about

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """What an axis shows and how."""

    label: str
    logarithmic: bool = False
    """Values that are not above zero have no place on it: such points are left out."""
    names: tuple[str, ...] = ()
    """Spelling of the places 0, 1, 2, ..., for values that are no numbers or are to stand at equal distances."""


def line_chart(title: str, lines: Mapping[str, Sequence[Point]], x: Axis, y: Axis) -> str:
    """One line, with a dot at each point, for each of ``lines``; a single point is a dot."""
    shown = {name: [point for point in points if _has_place(point, x, y)] for name, points in lines.items()}
    across = _Scale(x, [point[0] for points in shown.values() for point in points], _LEFT, _LEFT + _WIDTH)
    legend = _legend(list(lines))
    top = _TOP + _ROW * (1 + max((row for row, _ in legend.values()), default=0))
    up = _Scale(y, [point[1] for points in shown.values() for point in points], top + _HEIGHT, top)
    parts: list[str] = []
    for number, (name, (row, left)) in enumerate(legend.items()):
        colour, middle = _colour(number), _TOP + _ROW * row
        parts.append(f'<rect x="{left}" y="{middle - 4}" width="12" height="4" fill="{colour}"/>')
        parts.append(f'<text x="{left + 17}" y="{middle + 2}">{escape(name)}</text>')
    parts += _grid(across, up)
    for number, points in enumerate(shown.values()):
        parts += _line([(across.place(a), up.place(b)) for a, b in points], _colour(number))
    return _svg(title, _LEFT + _WIDTH + _RIGHT, top + _HEIGHT + _BOTTOM, parts, at=(_LEFT, 18))


class _Scale:
    """From values to pixels, ``start`` being the pixel of the lowest value shown."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float) -> None:
        self.axis, self.start, self.end = axis, start, end
        positions = [self._position(value) for value in values] or [0.0]
        low, high = min(positions), max(positions)
        if axis.names:
            low, high = 0.0, max(len(axis.names) - 1, 1)
        elif axis.logarithmic:
            low, high = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
        else:
            self._step = _step(low, high)
            low = self._step * math.floor(low / self._step + 1e-9)
            high = max(self._step * math.ceil(high / self._step - 1e-9), low + self._step)
        self._low, self._high = low, high

    def place(self, value: float) -> float:
        share = (self._position(value) - self._low) / (self._high - self._low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Pixels and what stands there."""
        if self.axis.names:
            return [(self.place(place), name) for place, name in enumerate(self.axis.names)]
        if self.axis.logarithmic:
            powers = range(int(self._low), int(self._high) + 1)
            return [(self.place(10.0**power), f"{10.0**power:,.{max(0, -power)}f}") for power in powers]
        count = round((self._high - self._low) / self._step)
        values = [self._low + self._step * number for number in range(count + 1)]
        digits = max(0, -math.floor(math.log10(self._step)))
        return [(self.place(value), f"{value:,.{digits}f}") for value in values]

    def _position(self, value: float) -> float:
        return math.log10(value) if self.axis.logarithmic else value


def _step(low: float, high: float) -> float:
    """Of about five ticks: 1, 2 or 5 times a power of ten.

    >>> _step(0.0, 1.0), _step(30.0, 190.0), _step(0.34, 0.36)
    (0.2, 50.0, 0.005)
    """
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    best = next((factor for factor in (1, 2, 5) if span / (factor * power) <= 5.5), 10)
    return best * power if power >= 1 else best / round(1 / power)


def _has_place(point: Point, x: Axis, y: Axis) -> bool:
    pairs = zip(point, (x, y), strict=True)
    return all(math.isfinite(value) and (value > 0 or not axis.logarithmic) for value, axis in pairs)


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _legend(names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Row and left edge of each name: as many in a row as fit."""
    places: dict[str, tuple[int, int]] = {}
    row, left = 0, _LEFT
    for name in names:
        wide = 34 + _CHARACTER * len(name)
        if left > _LEFT and left + wide > _LEFT + _WIDTH:
            row, left = row + 1, _LEFT
        places[name] = (row, left)
        left += wide
    return places


def _grid(across: _Scale, up: _Scale) -> list[str]:
    parts: list[str] = []
    for y, text in up.ticks():
        parts.append(f'<line x1="{across.start}" x2="{across.end}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e0e0e0"/>')
        parts.append(f'<text x="{across.start - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    for x, text in across.ticks():
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{up.end}" y2="{up.start}" stroke="#f0f0f0"/>')
        parts.append(f'<text x="{x:.1f}" y="{up.start + 16}" text-anchor="middle">{escape(text)}</text>')
    middle, high = (across.start + across.end) / 2, (up.start + up.end) / 2
    parts.append(f'<text x="{middle}" y="{up.start + 36}" text-anchor="middle">{escape(across.axis.label)}</text>')
    turned = f'transform="rotate(-90 12 {high})"'
    parts.append(f'<text x="12" y="{high}" text-anchor="middle" {turned}>{escape(up.axis.label)}</text>')
    return parts


def _line(points: Sequence[Point], colour: str) -> list[str]:
    joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts = [f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>'] if points else []
    return parts + [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]


def _svg(title: str, width: float, height: float, parts: Sequence[str], *, at: tuple[int, int]) -> str:
    """``parts`` on a white ground of ``width`` by ``height`` pixels, with the title written ``at`` a place."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{at[0]}" y="{at[1]}" font-size="14">{escape(title)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])
