"""How many dimensions are active in texts of different lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eval.report import Axis, line_chart


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
    """Texts in about ``groups`` groups of about equal size, by ``lengths`` (tokens); equal lengths stay together.

    A length that fills a group is one of its own: all texts cut at the maximum length are.

    >>> [(group.shortest, group.longest, group.mean_active) for group in by_length([9, 3, 3, 4], [80, 20, 40, 50], 2)]
    [(3, 3, 30.0), (4, 9, 65.0)]
    """
    tokens, terms = np.asarray(lengths, dtype=np.int64), np.asarray(active, dtype=np.int64)
    enough = len(tokens) / groups
    found: list[list[int]] = []  # the lengths of each group
    texts = float("inf")  # in the last group
    for length, count in zip(*(part.tolist() for part in np.unique(tokens, return_counts=True)), strict=True):
        if texts >= enough or count >= enough:
            found.append([])
            texts = 0
        found[-1].append(length)
        texts += count
    return [_group(tokens, terms, of_group) for of_group in found]


def _group(tokens: npt.NDArray[np.int64], terms: npt.NDArray[np.int64], lengths: Sequence[int]) -> LengthGroup:
    inside = (tokens >= lengths[0]) & (tokens <= lengths[-1])
    return LengthGroup(
        texts=int(np.count_nonzero(inside)),
        shortest=lengths[0],
        longest=lengths[-1],
        mean_length=float(tokens[inside].mean()),
        mean_active=float(terms[inside].mean()),
    )


def density_chart(groups: Mapping[str, Sequence[LengthGroup]], dimensions: int | None) -> str:
    """Mean length against mean density as SVG, a line for each kind of text; without ``dimensions`` their number."""
    lines = {
        name: [(group.mean_length, 100 * group.mean_active / dimensions if dimensions else group.mean_active)
               for group in of_kind]
        for name, of_kind in groups.items()
    }  # fmt: skip
    label = f"% of {dimensions:,} dimensions" if dimensions else "active dimensions"
    return line_chart("Density of texts by length", lines, Axis("tokens of the text"), Axis(label))
