"""What ``tests.benchmarks.quality`` compares: two ways of training of ours, four of sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from encoders.backbone import training_precision

PRECISION = training_precision("auto", torch.device("cpu"))
"""Of all trainings: bf16 where this machine computes it."""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": "2000000000", "MALLOC_TRIM_THRESHOLD_": "8000000000"}
"""glibc keeps freed memory: a step of sentence-transformers takes 3 seconds instead of 7, ours the same."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way of training; ``recipe`` changes our recipe, ``loss`` names that of sentence-transformers.

    The best of each ``group`` on dev queries is searched for test queries.
    """

    title: str
    group: str
    recipe: Mapping[str, Any] | None = None
    loss: str | None = None
    teacher: bool = False


CONTENDERS = {
    "plain": Contender(title="ours: plain", group="plain", recipe={}),
    "distilled": Contender(
        title="ours: distilled", group="distilled", teacher=True,
        recipe={"stages": [{"name": "ranking", "distillation": {"kl": 1.0}}]},
    ),
    "peer": Contender(
        title="sentence-transformers: SpladeLoss, MultipleNegativesRanking", group="peer", loss="ranking",
    ),
    "peer-cached": Contender(
        title="sentence-transformers: CachedSpladeLoss, MultipleNegativesRanking", group="peer", loss="cached",
    ),
    "peer-kl": Contender(
        title="sentence-transformers: SpladeLoss, DistillKLDiv", group="peer distilled", loss="kl", teacher=True,
    ),
    "peer-margin": Contender(
        title="sentence-transformers: SpladeLoss, MarginMSE", group="peer distilled", loss="margin", teacher=True,
    ),
}  # fmt: skip
