"""The choices of UHD-BERT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from learned_sparse.core import LearnedSparseError

Scope = Literal["total", "bucket"]


@dataclass(frozen=True, kw_only=True)
class UHDSettings:
    """Defaults are the paper's for MS MARCO (section 4.2, A.1)."""

    dimensions: int = 81920
    """``n``: of each bucket."""
    k: int = 80
    """Winners of each token, in each bucket."""
    layers: tuple[int, ...] = (2, 4, 6, 8, 10, 12)
    """The layers that buckets are made of, counted from 1, lowest first."""
    encoders: Literal["separate", "joint"] = "separate"
    """``separate``: a backbone for each bucket, cut above its layer; ``joint``: one backbone for all (A.3)."""
    normalize: Literal["bucket", "token", "both", "none"] = "bucket"
    """What is made of length 1: the bucket after pooling, each token's winners before it. The text of section 3.3 has
    the first; the mean of all values, 0.11169 (section 4.3), is nearly 1 / sqrt(80), as after the second."""
    weight_sparsity: float = 0.7
    """The share of a layer's outputs that a dimension never sees."""
    pool_special_tokens: bool = True
    """Whether the positions of [CLS] and [SEP] are pooled too. The paper is silent."""
    query_k: int | None = None
    """The dimensions that a query keeps after pooling (Table 4: 100 is best); ``None``: all."""
    query_k_scope: Scope = "total"
    """``query_k`` of the whole query, or of each bucket. The paper's "original" 1,200 fits the whole."""
    document_k: int | None = None
    """As ``query_k``, of documents; not in the paper."""
    document_k_scope: Scope = "total"
    bucket_weights: tuple[int, ...] | None = None
    """Factors of the buckets' scores, on the query side (section 4.5); 0: the query does without; ``None``: all 1."""
    binarize: bool = False
    """Weights become 1 (section 3.7). Training works on the real ones."""

    def __post_init__(self) -> None:
        """Refuse what no model can be made of."""
        if not self.layers or list(self.layers) != sorted(set(self.layers)) or self.layers[0] < 0:
            raise LearnedSparseError(f"UHD-BERT: layers {list(self.layers)}; give different ones, lowest first")
        if not 0 < self.k <= self.dimensions:
            raise LearnedSparseError(f"UHD-BERT: k {self.k}; give 1 to {self.dimensions}, the dimensions of a bucket")
        for name, kept in (("query_k", self.query_k), ("document_k", self.document_k)):
            if kept is not None and kept < 1:
                raise LearnedSparseError(f"UHD-BERT: {name} {kept}; give at least 1, or null to keep all")
        if self.bucket_weights is not None:
            _check_bucket_weights(self.bucket_weights, self.layers)


def _check_bucket_weights(weights: Sequence[int], layers: Sequence[int]) -> None:
    if len(weights) != len(layers) or min(weights) < 0 or not any(weights):
        raise LearnedSparseError(
            f"UHD-BERT: bucket_weights {list(weights)}; give a whole number from 0 for each of the layers "
            f"{list(layers)}, not all of them 0"
        )
