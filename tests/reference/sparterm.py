"""SparTerm as plain loops over the logits of one unpadded text (written from the paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence


def sparterm(
    importance: Sequence[Sequence[float]],
    gate: Sequence[Sequence[float]],
    tokens: Sequence[int],
    *,
    mode: str = "expansion-enhanced",
    gate_pool: str = "relu_sum",
    threshold: float = 0.7,
    max_terms: int | None = None,
    not_pooled: Sequence[int] = (),
    not_in_bag: Sequence[int] = (),
    blocked: Sequence[int] = (),
) -> list[float]:
    """The vector p' of Eq. 1; ``importance[i][j]`` and ``gate[i][j]`` are the two towers' I_ij (Eq. 2)."""
    positions = [i for i, token in enumerate(tokens) if token not in not_pooled]
    weights = []
    for j in range(len(importance[0])):
        total = sum((max(0.0, importance[i][j]) for i in positions), 0.0)  # Eq. 3
        literal = 1 if j in tokens and j not in not_in_bag else 0  # BoW(p)
        expanded = 0 if literal else binarized([gate[i][j] for i in positions], gate_pool, threshold)  # Eq. 4 and 5
        if mode == "literal-only":
            weight = literal * total
        elif mode == "expansion-enhanced":
            weight = (expanded + literal) * total  # Eq. 6
        else:
            frequency = sum(1 for token in tokens if token == j) if literal else 0
            weight = float(frequency + expanded)
        weights.append(0.0 if j in blocked else weight)
    if max_terms is not None:
        smallest = sorted(weights, reverse=True)[max_terms - 1]
        weights = [weight if weight >= smallest else 0.0 for weight in weights]
    return weights


def binarized(logits: Sequence[float], gate_pool: str, threshold: float) -> int:
    """Eq. 4 of one term: 1 if its gating probability is at least the threshold."""
    if gate_pool == "relu_sum":
        pooled = sum(max(0.0, logit) for logit in logits)
    else:
        pooled = max(logits, default=0.0)
        if gate_pool == "max":
            pooled = max(0.0, pooled)
    return 1 if 1.0 / (1.0 + math.exp(-pooled)) >= threshold else 0
