"""The papers' losses as pure functions of scores and logits."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def pairwise_nll(positive: Tensor, negatives: Tensor) -> Tensor:
    """SparTerm Eq. 7: ``-log(e^s+ / (e^s+ + e^s-))`` of each query, (queries,).

    ``positive`` has shape (queries,), ``negatives`` (queries, negatives). The paper has one negative per query; with
    several, each forms a pair of its own and the loss is the mean over pairs.

    >>> round(pairwise_nll(torch.tensor([1.0]), torch.tensor([[0.0]])).item(), 4)
    0.3133
    """
    return functional.softplus(negatives - positive.unsqueeze(1)).mean(dim=1)


def in_batch_nll(in_batch: Tensor, hard: Tensor, excluded: Tensor) -> Tensor:
    """SPLADE's L_rank-IBN of each query, (queries,): its own positive against everything else it is scored with.

    ``in_batch`` (queries, queries): row i, column j is query i with the positive of query j, so the diagonal holds the
    own positives. ``hard`` (queries, hard negatives), which may have no columns. ``excluded`` (queries, queries + hard
    negatives), boolean: pairs that are left out because the document is relevant to the query too.
    """
    logits = torch.cat([in_batch, hard], dim=1).masked_fill(excluded, float("-inf"))
    return functional.cross_entropy(logits, torch.arange(len(logits), device=logits.device), reduction="none")


def in_batch_hinge(in_batch: Tensor, excluded: Tensor, margin: float = 1.0) -> Tensor:
    """UHD-BERT Eq. 8 of each query, (queries,): the sum over others' positives of ``max(0, margin - s+ + s-)``.

    ``in_batch`` (queries, queries) as in ``in_batch_nll``; ``excluded``, boolean, of the same shape.

    >>> in_batch_hinge(torch.tensor([[2.0, 1.5], [0.0, 3.0]]), torch.zeros(2, 2, dtype=torch.bool)).tolist()
    [0.5, 0.0]
    """
    own = torch.eye(len(in_batch), dtype=torch.bool, device=in_batch.device)
    lost = functional.relu(margin - in_batch.diagonal().unsqueeze(1) + in_batch)
    return lost.masked_fill(own | excluded, 0.0).sum(dim=1)


def query_nll(queries: Tensor, positives: Tensor) -> Tensor:
    """The last part of SpaDE's Eq. 12 of each query, (queries,): ``-v_q . log softmax(v_d+)``.

    Both have shape (queries, dimensions).

    >>> round(query_nll(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 0.0]])).item(), 4)
    0.6931
    """
    return -(queries * functional.log_softmax(positives, dim=1)).sum(dim=1)


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
