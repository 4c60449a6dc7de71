"""SpaDE as plain loops over the scores and logits of one unpadded text (written from the paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tests.reference.term_weighting import term_weights

weighting = partial(term_weights, floor=-math.inf)
"""v^w (Eq. 4 to 6); ``scores[i]`` is s_i. Without ``relu``, the weights of training, which may be negative."""


def expansion(
    logits: Sequence[Sequence[float]],
    tokens: Sequence[int],
    *,
    k: int | None = 10,
    relu: bool = True,
    not_pooled: Sequence[int] = (),
) -> list[float]:
    """v^e (Eq. 7 to 9); ``logits[i][j]`` is f_MLM of position i and term j. ``k=None``: without Eq. 8."""
    terms = len(logits[0])
    masked = []
    for i, token in enumerate(tokens):
        if token in not_pooled:
            continue
        values = [max(0.0, logit) if relu else logit for logit in logits[i]]  # Eq. 7
        if k is not None:
            largest = sorted(range(terms), key=lambda j: (-logits[i][j], j))[:k]
            values = [values[j] if j in largest else 0.0 for j in range(terms)]  # Eq. 8
        masked.append(values)
    return [max((values[j] for values in masked), default=0.0) for j in range(terms)]  # Eq. 9


def aggregate(weights: Sequence[float], expanded: Sequence[float], alpha: float) -> list[float]:
    """v_d (Eq. 10)."""
    return [
        (1 - alpha) * weight + alpha * expansion_weight
        for weight, expansion_weight in zip(weights, expanded, strict=True)
    ]


def prune(vector: Sequence[float], shares: Sequence[float], gamma: float) -> list[float]:
    """Section 3.4: terms in more than ``gamma`` of the documents are removed."""
    return [0.0 if share > gamma else weight for weight, share in zip(vector, shares, strict=True)]
