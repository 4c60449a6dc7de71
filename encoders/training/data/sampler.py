"""Which example comes at which position: a pure function of seed and position, so that resuming needs no state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt


class Sampler:
    """An endless shuffled order over several sources.

    Each source is passed through in a new random order every time; within a round the sources are mixed in proportion
    to their weights. Position 10,000 is found without visiting the 9,999 before it.

    >>> sampler = Sampler([3], seed=0)
    >>> sorted(sampler.at(position) for position in range(3))
    [(0, 0), (0, 1), (0, 2)]
    """

    def __init__(self, sizes: Sequence[int], *, weights: Sequence[float | None] | None = None, seed: int) -> None:
        """``sizes``: examples of each source, at least 1. ``weights``: share of each, by default its size."""
        self._sizes, self._seed = list(sizes), seed
        weights = weights or [None] * len(sizes)
        shares = [float(size) if weight is None else weight for size, weight in zip(sizes, weights, strict=True)]
        scale = sum(sizes) / sum(shares)
        self._per_round = [max(1, round(share * scale)) for share in shares]
        self._permutation = lru_cache(maxsize=2 * len(sizes) + 2)(self._shuffle)

    def at(self, position: int) -> tuple[int, int]:
        """The (source, index within the source) at ``position``, counted from 0."""
        round_size = sum(self._per_round)
        round_number, place = divmod(position, round_size)
        if len(self._sizes) > 1:
            place = int(self._permutation(len(self._sizes), round_number, round_size)[place])
        source = 0
        while place >= self._per_round[source]:
            place -= self._per_round[source]
            source += 1
        passes, index = divmod(round_number * self._per_round[source] + place, self._sizes[source])
        return source, int(self._permutation(source, passes, self._sizes[source])[index])

    def _shuffle(self, stream: int, number: int, size: int) -> npt.NDArray[Any]:
        dtype = np.int32 if size < 2**31 else np.int64
        return np.random.default_rng([self._seed, stream, number]).permutation(np.arange(size, dtype=dtype))
