"""Sparsity regularisers: each is one function of the weights of a step's texts, and one line in ``REGULARIZERS``.

Training gives them the weights of all texts of a step, of all micro-batches and processes, so that they need not be
linear in the texts. This module is read without torch, because recipes name regularisers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def flops(weights: Tensor) -> Tensor:
    """``sum_j (mean_i w_ij)^2`` (SPLADE, after Paria et al.), a scalar, of weights (texts, dimensions)."""
    return weights.mean(dim=0).square().sum()


def l1(weights: Tensor) -> Tensor:
    """``mean_i sum_j |w_ij|``, a scalar, of weights (texts, dimensions)."""
    return weights.abs().sum(dim=1).mean()


REGULARIZERS: dict[str, Callable[[Tensor], Tensor]] = {"flops": flops, "l1": l1}
