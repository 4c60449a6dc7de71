"""What every chart begins and ends with, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def svg(title: str, width: float, height: float, parts: Sequence[str], *, at: tuple[int, int]) -> str:
    """``parts`` on a white ground of ``width`` by ``height`` pixels, with the title written ``at`` a place."""
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12" role="img">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{at[0]}" y="{at[1]}" font-size="14">{escape(title)}</text>',
    ]
    return "\n".join([*head, *parts, "</svg>", ""])
