"""The papers' losses as pure functions of scores and logits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def pairwise_nll(positive: Tensor, negatives: Tensor) -> Tensor:
    """SparTerm Eq. 7: ``-log(e^s+ / (e^s+ + e^s-))``, a scalar.

    ``positive`` has shape (queries,), ``negatives`` (queries, negatives). The paper has one negative per query; with
    several, each forms a pair of its own and the loss is the mean over pairs.

    >>> round(pairwise_nll(torch.tensor([1.0]), torch.tensor([[0.0]])).item(), 4)
    0.3133
    """
    return functional.softplus(negatives - positive.unsqueeze(1)).mean()


def in_batch_nll(in_batch: Tensor, hard: Tensor, excluded: Tensor) -> Tensor:
    """SPLADE's L_rank-IBN, a scalar: each query's own positive against everything else it is scored with.

    ``in_batch`` (queries, queries): row i, column j is query i with the positive of query j, so the diagonal holds the
    own positives. ``hard`` (queries, hard negatives), which may have no columns. ``excluded`` (queries, queries + hard
    negatives), boolean: pairs that are left out because the document is relevant to the query too.
    """
    logits = torch.cat([in_batch, hard], dim=1).masked_fill(excluded, float("-inf"))
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


def gate_bce(logits: Tensor, target: Tensor, *, negative_weight: float = 1e-3, positive_weight: float = 1.0) -> Tensor:
    """SparTerm Eq. 8, a scalar: ``-l1 sum_{T=0} log(1 - G) - l2 sum_{T=1} log G`` with ``G = sigmoid(logits)``.

    ``logits`` and ``target`` have shape (passages, vocabulary); ``target`` is the binary bag of words of the query.
    Sums over the vocabulary as the paper writes them, the mean over passages; l1 = 1e-3 and l2 = 1 are its §4.2.

    >>> round(gate_bce(torch.zeros(1, 3), torch.tensor([[0.0, 0.0, 1.0]])).item(), 5)  # (2 * 0.001 + 1) * log 2
    0.69453
    """
    # -log(1 - sigmoid(x)) = softplus(x) and -log sigmoid(x) = softplus(-x): finite for every x
    absent = functional.softplus(logits) * (1 - target)
    present = functional.softplus(-logits) * target
    return (negative_weight * absent + positive_weight * present).sum(dim=1).mean()
