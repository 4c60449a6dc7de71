"""The loss of one batch as a function of term weights: ranking, gate and regulariser put together as a stage says."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from encoders.training.objective.losses import gate_bce, in_batch_hinge, in_batch_nll, pairwise_nll, query_nll
from encoders.training.objective.regularizers import REGULARIZERS, document_regularizer
from encoders.training.recipe import Rank, Stage


@dataclass(frozen=True)
class Outputs:
    """What a forward pass gave for n queries with h hard negatives each; a stage leaves out what it has no use for."""

    queries: Tensor | None = None  # weights (n, dimensions)
    positives: Tensor | None = None  # weights (n, dimensions)
    negatives: Tensor | None = None  # weights (n * h, dimensions), query by query
    gate: Tensor | None = None  # gate logits of the positives (n, dimensions)


def objective(
    stage: Stage,
    outputs: Outputs,
    known: Tensor,
    target: Tensor | None,
    ramp: float,
    *,
    component: str | None = None,
    kept: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The scalar to minimise, and its parts for the log.

    ``known``: see ``known_positives``. ``target``: the bags of words for Eq. 8, needed where ``outputs`` has a gate.
    ``ramp``: the share of lambda in force. ``component``: the one being trained; ``None``: the whole model. ``kept``
    (dimensions,): 0 at terms that documents can no longer have, which queries lose in Eq. 12.
    """
    parts: dict[str, Tensor] = {}
    if outputs.gate is not None and target is not None:
        weights = {"negative_weight": stage.gate.negative_weight, "positive_weight": stage.gate.positive_weight}
        parts["gate_loss"] = gate_bce(outputs.gate, target, **weights)
    if outputs.queries is not None and outputs.positives is not None and outputs.negatives is not None:
        ranked = outputs.queries, outputs.positives, outputs.negatives
        parts["rank_loss"] = rank_loss(stage.rank, *ranked, known)
        if _is_pointwise(stage, component):
            parts["pointwise_loss"] = _pointwise(stage, outputs.queries, outputs.positives, kept).mean()
        parts |= _regularizers(stage, *ranked, ramp)
    return torch.stack(list(parts.values())).sum(), parts


def example_losses(
    stage: Stage,
    outputs: Outputs,
    known: Tensor,
    *,
    component: str | None = None,
    kept: Tensor | None = None,
    pairwise: bool = False,
) -> Tensor:
    """What each query loses, (queries,): the ranking loss with Eq. 12's addition where it has one, no regulariser.

    With ``pairwise`` it is Eq. 7 alone, whatever loss the stage trains.
    """
    if outputs.queries is None or outputs.positives is None or outputs.negatives is None:
        raise ValueError("no ranking outputs")
    rank = replace(stage.rank, loss="pairwise") if pairwise else stage.rank
    losses = rank_losses(rank, outputs.queries, outputs.positives, outputs.negatives, known)
    if not pairwise and _is_pointwise(stage, component):
        losses = losses + _pointwise(stage, outputs.queries, outputs.positives, kept)
    return losses


def rank_loss(rank: Rank, queries: Tensor, positives: Tensor, negatives: Tensor, known: Tensor) -> Tensor:
    """The ranking loss over dot products, a scalar: the mean over queries."""
    return rank_losses(rank, queries, positives, negatives, known).mean()


def rank_losses(rank: Rank, queries: Tensor, positives: Tensor, negatives: Tensor, known: Tensor) -> Tensor:
    """The ranking loss of each query over dot products, (queries,)."""
    count = len(queries)
    if rank.loss == "pairwise":
        own = (queries * positives).sum(dim=1) * rank.score_scale
        return pairwise_nll(own, _own_hard_scores(queries, negatives) * rank.score_scale)
    in_batch = queries @ positives.T * rank.score_scale
    left_out = excluded(rank, known.to(in_batch.device), count)
    if rank.loss == "hinge":
        return in_batch_hinge(in_batch, left_out[:, :count], rank.margin)
    hard = queries @ negatives.T if rank.others_hard_negatives else _own_hard_scores(queries, negatives)
    return in_batch_nll(in_batch, hard * rank.score_scale, left_out)


def excluded(rank: Rank, known: Tensor, count: int) -> Tensor:
    """The mask ``in_batch_nll`` takes: (queries, queries + hard negatives scored), True where a pair is left out."""
    hard = known[:, count:]
    if not rank.others_hard_negatives:
        hard = _own_columns(hard, count)
    mask = torch.cat([known[:, :count], hard], dim=1)
    return mask if rank.mask_known_positives else torch.zeros_like(mask)


def negatives_per_query(stage: Stage, known: Tensor) -> float:
    """How many negatives a query is ranked against, on average: the number a silent mistake would change."""
    count = len(known)
    if stage.rank.loss == "pairwise":
        return (known.shape[1] - count) / count
    scored = ~excluded(stage.rank, known, count)
    if stage.rank.loss == "hinge":
        scored = scored[:, :count]
    return float(scored.sum(dim=1).float().mean()) - 1


def _is_pointwise(stage: Stage, component: str | None) -> bool:
    settings = stage.pointwise
    return settings.weight != 0 and settings.component in (None, component)


def _pointwise(stage: Stage, queries: Tensor, positives: Tensor, kept: Tensor | None) -> Tensor:
    return stage.pointwise.weight * query_nll(queries if kept is None else queries * kept, positives)


def _regularizers(
    stage: Stage, queries: Tensor, positives: Tensor, negatives: Tensor, ramp: float
) -> dict[str, Tensor]:
    settings, parts = stage.regularizer, {}
    if settings.kind != "none" and settings.lambda_query:
        parts["query_regularizer"] = REGULARIZERS[settings.kind](queries) * (settings.lambda_query * ramp)
    if settings.kind != "none" and settings.lambda_document:
        documents = document_regularizer(settings.kind, positives, negatives, settings.documents)
        parts["document_regularizer"] = documents * (settings.lambda_document * ramp)
    return parts


def _own_hard_scores(queries: Tensor, negatives: Tensor) -> Tensor:
    """Scores (queries, h) of each query with its own hard negatives."""
    own = negatives.view(len(queries), len(negatives) // len(queries), negatives.shape[1])
    return (queries.unsqueeze(1) * own).sum(dim=2)


def _own_columns(hard: Tensor, count: int) -> Tensor:
    """Of (queries, queries * h) the h columns of each query itself."""
    per_query = hard.shape[1] // count
    rows = torch.arange(count, device=hard.device)
    return hard.view(count, count, per_query)[rows, rows]
