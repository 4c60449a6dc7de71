"""SPLADE v1 and its variants as plain loops over the logits of one unpadded text (written from the paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def splade(
    logits: Sequence[Sequence[float]],
    tokens: Sequence[int],
    *,
    pooling: str = "sum",
    saturation: str = "log",
    lexical: bool = False,
    not_pooled: Sequence[int] = (),
    not_in_bag: Sequence[int] = (),
    blocked: Sequence[int] = (),
) -> list[float]:
    """Eq. 4 (or Eq. 2 with ``saturation="none"``): ``logits[i][j]`` is w_ij of position i and vocabulary entry j."""
    weights = []
    for j in range(len(logits[0])):
        values = []
        for i, token in enumerate(tokens):
            if token in not_pooled:
                continue
            importance = max(0.0, logits[i][j])
            values.append(math.log(1.0 + importance) if saturation == "log" else importance)
        weight = sum(values) if pooling == "sum" else max(values, default=0.0)
        in_bag = j in tokens and j not in not_in_bag
        if (lexical and not in_bag) or j in blocked:
            weight = 0.0
        weights.append(weight)
    return weights
