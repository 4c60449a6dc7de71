"""Ranking losses and sparsity regularisers as pure functions of scores and term weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional


def pairwise_nll(positive: Tensor, negatives: Tensor) -> Tensor:
    """SparTerm Eq. 7: ``-log(e^s+ / (e^s+ + e^s-))`` of each query, (queries,).

    ``positive`` has shape (queries,), ``negatives`` (queries, negatives). The paper has one negative per query; with
    several, each is paired with the positive and the loss is the mean over pairs.

    >>> round(pairwise_nll(torch.tensor([1.0]), torch.tensor([[0.0]])).item(), 4)
    0.3133
    """
    return functional.softplus(negatives - positive.unsqueeze(1)).mean(dim=1)


def in_batch_nll(in_batch: Tensor, hard: Tensor, excluded: Tensor) -> Tensor:
    """SPLADE's L_rank-IBN of each query, (queries,): its positive against all other documents it is scored with.

    ``in_batch`` (queries, queries): row i, column j is the score of query i and the positive of query j; the diagonal
    holds the scores of the own positives. ``hard`` (queries, hard negatives), which may have no columns. ``excluded``
    (queries, queries + hard negatives), boolean: pairs left out because the document is relevant to the query.
    """
    logits = torch.cat([in_batch, hard], dim=1).masked_fill(excluded, float("-inf"))
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device), reduction="none")


def in_batch_hinge(in_batch: Tensor, excluded: Tensor, margin: float = 1.0) -> Tensor:
    """UHD-BERT Eq. 8 of each query, (queries,): the sum over others' positives of ``max(0, margin - s+ + s-)``.

    ``in_batch`` (queries, queries) as in ``in_batch_nll``; ``excluded``, boolean, has the same shape.

    >>> in_batch_hinge(torch.tensor([[2.0, 1.5], [0.0, 3.0]]), torch.zeros(2, 2, dtype=torch.bool)).tolist()
    [0.5, 0.0]
    """
    own = torch.eye(len(in_batch), dtype=torch.bool, device=in_batch.device)
    losses = functional.relu(margin - in_batch.diagonal().unsqueeze(1) + in_batch)
    return losses.masked_fill(own | excluded, 0.0).sum(dim=1)


def flops(weights: Tensor) -> Tensor:
    """``sum_j (mean_i w_ij)^2`` (SPLADE, after Paria et al.), a scalar, of weights (texts, dimensions).

    Not linear in the texts: the value of a batch is not the mean of the values of its parts.
    """
    return weights.mean(dim=0).square().sum()


def l1(weights: Tensor) -> Tensor:
    """``mean_i sum_j |w_ij|``, a scalar, of weights (texts, dimensions)."""
    return weights.abs().sum(dim=1).mean()


REGULARIZERS: dict[str, Callable[[Tensor], Tensor]] = {"flops": flops, "l1": l1}


def document_regularizer(
    kind: str, positives: Tensor, negatives: Tensor, how: Literal["concatenated", "averaged"]
) -> Tensor:
    """The regulariser of the documents of a batch, positives (n, dimensions) and negatives (m, dimensions).

    ``concatenated`` (the default of every recipe) takes all n + m documents as one batch, the formula of the paper.
    ``averaged`` is naver/splade's code: half the regulariser of the positives plus half that of the negatives. The two
    agree for L1 when n = m. For FLOPS ``averaged`` is never smaller, so a lambda does not carry over.
    """
    regularizer = REGULARIZERS[kind]
    if not len(negatives):
        return regularizer(positives)
    if how == "averaged":
        return (regularizer(positives) + regularizer(negatives)) / 2
    return regularizer(torch.cat([positives, negatives]))
