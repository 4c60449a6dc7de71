"""UHD-BERT as plain loops over the states of one unpadded text (written from the paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence

Vector = list[float]


def uhd(
    states: Sequence[Sequence[Vector]],
    weights: Sequence[Sequence[Vector]],
    biases: Sequence[Vector],
    tokens: Sequence[int],
    *,
    k: int,
    normalize: str = "bucket",
    keep: int | None = None,
    scope: str = "total",
    factors: Sequence[int] | None = None,
    binarize: bool = False,
    not_pooled: Sequence[int] = (),
) -> Vector:
    """The buckets of one text, concatenated.

    For bucket j, ``states[j][i]`` is the state of token i; ``weights[j][dim]`` and ``biases[j][dim]`` are one unit.
    """
    positions = [i for i, token in enumerate(tokens) if token not in not_pooled]
    buckets = []
    for layer, weight, bias in zip(states, weights, biases, strict=True):
        pooled = bucket([layer[i] for i in positions], weight, bias, k, normalize)
        buckets.append(strongest(pooled, keep) if scope == "bucket" else pooled)
    factors = factors or [1] * len(buckets)
    used = [value for factor, values in zip(factors, buckets, strict=True) for value in values if factor]
    chosen = iter(strongest(used, keep) if scope == "total" else used)
    result: Vector = []
    for factor, values in zip(factors, buckets, strict=True):
        kept = [next(chosen) for _ in values] if factor else [0.0 for _ in values]
        if binarize:
            kept = [1.0 if value else 0.0 for value in kept]  # section 3.7
        result += [factor * value for value in kept]
    return result


def bucket(states: Sequence[Vector], weight: Sequence[Vector], bias: Vector, k: int, normalize: str) -> Vector:
    """Eq. 2 to 4."""
    pooled = [0.0] * len(bias)
    for state in states:
        z = [sum(e * w for e, w in zip(state, unit, strict=True)) + b for unit, b in zip(weight, bias, strict=True)]
        token = winners(z, k)
        if normalize in ("token", "both"):
            token = of_length_one(token)
        pooled = [max(old, new) for old, new in zip(pooled, token, strict=True)]
    return of_length_one(pooled) if normalize in ("bucket", "both") else pooled


def winners(values: Vector, k: int) -> Vector:
    """Eq. 3: the k largest values, of any sign; the others are 0."""
    order = sorted(range(len(values)), key=lambda dim: (-values[dim], dim))
    return [value if dim in order[:k] else 0.0 for dim, value in enumerate(values)]


def strongest(values: Vector, keep: int | None) -> Vector:
    """The ``keep`` largest values (query k of section 4.4), or all values."""
    return values if keep is None else winners(values, keep)


def of_length_one(values: Vector) -> Vector:
    """The vector scaled to L2 length 1; a zero vector stays zero."""
    length = math.sqrt(sum(value * value for value in values))
    return [value / length if length else 0.0 for value in values]
