"""Sparsity regularisers: pure functions of a batch of term weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, cat

Kind = Literal["none", "flops", "l1"]
Documents = Literal["concatenated", "averaged"]


def flops(weights: Tensor) -> Tensor:
    """``sum_j (mean_i w_ij)^2`` (SPLADE, after Paria et al.), a scalar, of weights (texts, dimensions).

    Not linear in the texts: the value over a batch is not the mean of the values over its parts.
    """
    return weights.mean(dim=0).square().sum()


def l1(weights: Tensor) -> Tensor:
    """``mean_i sum_j |w_ij|``, a scalar, of weights (texts, dimensions)."""
    return weights.abs().sum(dim=1).mean()


REGULARIZERS: dict[str, Callable[[Tensor], Tensor]] = {"flops": flops, "l1": l1}


def document_regularizer(kind: str, positives: Tensor, negatives: Tensor, how: Documents) -> Tensor:
    """The regulariser of the documents of a batch, positives (n, dimensions) and negatives (m, dimensions).

    ``concatenated`` (the default of every recipe) takes all n + m documents as one batch, the formula of the paper.
    ``averaged`` is what naver/splade does: half the regulariser of the positives plus half that of the negatives.
    The two agree for L1 when n = m; for FLOPS the second is then never smaller: a lambda does not carry over.
    """
    regularizer = REGULARIZERS[kind]
    if not len(negatives):
        return regularizer(positives)
    if how == "averaged":
        return (regularizer(positives) + regularizer(negatives)) / 2
    return regularizer(cat([positives, negatives]))
