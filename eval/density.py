"""How many dimensions are active in texts of different lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from eval.curves import Axis, line_chart


@dataclass(frozen=True)
class LengthGroup:
    """Texts of similar length."""

    texts: int
    shortest: int
    """Tokens."""
    longest: int
    mean_length: float
    mean_active: float
    """Active dimensions."""


def by_length(lengths: Sequence[int], active: Sequence[int], groups: int = 20) -> list[LengthGroup]:
    """Texts in at most ``groups`` groups of about equal size, by ``lengths`` (tokens); equal lengths stay together.

    >>> [(group.shortest, group.longest, group.mean_active) for group in by_length([9, 3, 3, 4], [80, 20, 40, 50], 2)]
    [(3, 3, 30.0), (4, 9, 65.0)]
    """
    if not len(lengths):
        return []
    tokens, terms = np.asarray(lengths), np.asarray(active)
    edges = np.unique(np.quantile(tokens, np.linspace(0, 1, groups + 1)[1:-1], method="lower"))
    of_text = np.searchsorted(edges, tokens, side="left")
    found = []
    for group in np.unique(of_text).tolist():
        inside = of_text == group
        some = tokens[inside]
        found.append(
            LengthGroup(
                texts=len(some),
                shortest=int(some.min()),
                longest=int(some.max()),
                mean_length=float(some.mean()),
                mean_active=float(terms[inside].mean()),
            )
        )
    return found


def density_chart(groups: Mapping[str, Sequence[LengthGroup]], dimensions: int | None) -> str:
    """Mean length against mean density as SVG, a line for each kind of text; without ``dimensions`` their number."""
    lines = {
        name: [(group.mean_length, 100 * group.mean_active / dimensions if dimensions else group.mean_active)
               for group in of_kind]
        for name, of_kind in groups.items()
    }  # fmt: skip
    label = f"% of {dimensions:,} dimensions" if dimensions else "active dimensions"
    return line_chart("Density of texts by length", lines, Axis("tokens of the text"), Axis(label))
