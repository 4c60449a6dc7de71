"""What ``tests.benchmarks.quality`` compares: our ways of training, and those of sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from encoders.backbone.device import training_precision

BATCH, NEGATIVES = 16, 2
DISTILLED = "distilled"
"""The contender that the others are compared with, and that may be trained for longer."""
PRECISION = training_precision("auto", torch.device("cpu"))
"""Of all trainings: bf16 where this machine computes it."""
MEMORY = {"MALLOC_MMAP_THRESHOLD_": "2000000000", "MALLOC_TRIM_THRESHOLD_": "8000000000"}
"""glibc keeps freed memory: a step of sentence-transformers takes 3 seconds instead of 7, ours the same."""
FILTER = {"margin": 1.0}
"""The teacher scores a negative at least 1 below the relevant document, so that few negatives are relevant."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way of training: ours, or with ``loss`` that of sentence-transformers.

    The best of each ``group`` on dev queries is searched for test queries.
    """

    title: str
    group: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of our architecture."""
    stage: Mapping[str, Any] = field(default_factory=dict)
    """Of our training."""
    negatives: Mapping[str, Any] = field(default_factory=dict)
    """Of our training."""
    loss: str | None = None
    teacher: bool = False
    """Whether it has the teacher's scores, and hits of a first student among its negatives instead of BM25's alone."""
    timed_as: str | None = None
    """The contender whose step takes as long: measured once, so that noise favours neither."""
    seeds: int = 3
    """Models that are tested."""

    @property
    def lambda_query(self) -> float:
        """Weight of the regulariser of queries: none for bags of words, as in SPLADE-doc."""
        return 0.0 if self.settings else 3e-4


def _bag_of_words(weighting: str, title: str, **stage: Any) -> Contender:
    settings = {"query": "bag-of-words", "query_weighting": weighting}
    return Contender(
        title=f"ours: plain, {title}", group=weighting, settings=settings, stage=stage, timed_as="plain", seeds=1
    )


CONTENDERS = {
    "plain": Contender(title="ours: plain", group="plain"),
    DISTILLED: Contender(
        title="ours: distilled", group="distilled", teacher=True, timed_as="plain",
        stage={"distillation": {"kl": 0.3}}, negatives=FILTER,
    ),
    "peer": Contender(
        title="sentence-transformers: SpladeLoss, MultipleNegativesRanking", group="peer", loss="ranking",
    ),
    "peer-cached": Contender(
        title="sentence-transformers: CachedSpladeLoss, MultipleNegativesRanking", group="peer", loss="cached",
    ),
    "peer-kl": Contender(
        title="sentence-transformers: SpladeLoss, DistillKLDiv", group="peer distilled", loss="kl", teacher=True,
        timed_as="peer", negatives=FILTER,
    ),
    "peer-margin": Contender(
        title="sentence-transformers: SpladeLoss, MarginMSE", group="peer distilled", loss="margin", teacher=True,
        timed_as="peer", negatives=FILTER,
    ),
    "boolean-queries": _bag_of_words("binary", "queries without an encoder, weight 1"),
    "idf-queries": _bag_of_words("idf", "queries without an encoder, IDF"),
    "learned-queries": _bag_of_words("learned", "queries without an encoder, learned", head_learning_rate=1e-3),
}  # fmt: skip


def recipe_of(
    contender: str, rate: float, steps: int, seed: int, data: Sequence[Mapping[str, str]], depth: int
) -> dict[str, Any]:
    """Our recipe of a contender; sentence-transformers takes the same values from it."""
    kind = CONTENDERS[contender]
    stage: dict[str, Any] = {
        "name": "ranking", "steps": steps, "batch_size": BATCH, "learning_rate": rate,
        "warm_up_steps": max(1, steps // 10), "rank": {"loss": "in_batch", "others_hard_negatives": True},
        "regularizer": {
            "kind": "flops", "lambda_query": kind.lambda_query, "lambda_document": 3e-4,
            "ramp_steps": max(1, steps // 3),
        }, **kind.stage,
    }  # fmt: skip
    return {
        "base": "small-splade", "model": f"quality-{contender}", "seed": seed, "data": list(data), "stages": [stage],
        "negatives": {"kind": "given", "per_query": NEGATIVES, "first_rank": 1, "last_rank": depth, **kind.negatives},
        "settings": dict(kind.settings),
    }  # fmt: skip
