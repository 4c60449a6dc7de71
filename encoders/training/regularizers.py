"""Sparsity regularisers: each is one function of the weights of a step's texts, and one line in ``REGULARIZERS``.

Training gives them the weights of all texts of a step, of all micro-batches and processes, so that they need not be
linear in the texts. This module is read without torch, because recipes name regularisers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from learned_sparse.core.lazy import Register

if TYPE_CHECKING:
    from torch import Tensor

ALPHA, BETA = 0.1, 10.0
"""``df_flops``: the share of documents at which a term has half the penalty, and the steepness there."""


def flops(weights: Tensor) -> Tensor:
    """``sum_j (mean_i w_ij)^2`` (SPLADE, after Paria et al.), a scalar, of weights (texts, dimensions)."""
    return weights.mean(dim=0).square().sum()


def l1(weights: Tensor) -> Tensor:
    """``mean_i sum_j |w_ij|``, a scalar, of weights (texts, dimensions)."""
    return weights.abs().sum(dim=1).mean()


def df_flops(weights: Tensor) -> Tensor:
    """DF-FLOPS (Porco et al., arXiv 2505.15070): ``sum_t (a(DF_t / N) mean_i w_it)^2``, a scalar.

    ``a(x) = 1 / (1 + (x^(log_alpha 2) - 1)^beta)``, a generalised logistic function with ``a(0) = 0``, ``a(alpha) =
    1/2`` and ``a(1) = 1``; it has no gradient. The paper counts ``DF_t`` in the documents of its validation, every 100
    steps; here they are counted in the texts of the step, so that no state has to be kept.

    >>> import torch
    >>> round(df_flops(10 * torch.eye(10)).item(), 4)  # ten terms with the mean 1, each in a tenth of the texts
    2.5
    """
    shares = (weights.detach() > 0).to(weights.dtype).mean(dim=0)
    distance = shares.clamp(min=1e-6).pow(math.log(2) / math.log(ALPHA)) - 1
    return flops(weights / (1 + distance.pow(BETA)))


REGULARIZERS: Register[Callable[[Tensor], Tensor]] = Register(
    "learned_sparse.regularizers", {"flops": flops, "l1": l1, "df_flops": df_flops}
)
"""Regularisers by their name in recipes; those of installed packages are entry points of the group."""


def masked(weights: Tensor, threshold: int | None) -> Tensor:
    """``weights`` (texts, dimensions) with zeros for texts of at most ``threshold`` terms: the L0 mask.

    Such a text still counts in means (arXiv 2504.14839, and ``threshold`` of sentence-transformers' ``FlopsLoss``).
    """
    if threshold is None:
        return weights
    return weights * ((weights != 0).sum(dim=1, keepdim=True) > threshold)
