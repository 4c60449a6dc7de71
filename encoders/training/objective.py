"""The loss of one batch as a function of term weights: ranking, gate and regulariser put together as a stage says."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from encoders.training.losses import gate_bce, in_batch_nll, pairwise_nll
from encoders.training.recipe import Rank, Stage
from encoders.training.regularizers import REGULARIZERS, document_regularizer


@dataclass(frozen=True)
class Outputs:
    """What a forward pass gave for n queries with h hard negatives each; a stage leaves out what it has no use for."""

    queries: Tensor | None = None  # weights (n, dimensions)
    positives: Tensor | None = None  # weights (n, dimensions)
    negatives: Tensor | None = None  # weights (n * h, dimensions), query by query
    gate: Tensor | None = None  # gate logits of the positives (n, dimensions)


def objective(
    stage: Stage, outputs: Outputs, known: Tensor, target: Tensor | None, ramp: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """The scalar to minimise, and its parts for the log.

    ``known``: see ``known_positives``. ``target``: the bags of words for Eq. 8, needed where ``outputs`` has a gate.
    ``ramp``: the share of lambda in force.
    """
    parts: dict[str, Tensor] = {}
    if outputs.gate is not None and target is not None:
        weights = {"negative_weight": stage.gate.negative_weight, "positive_weight": stage.gate.positive_weight}
        parts["gate_loss"] = gate_bce(outputs.gate, target, **weights)
    if outputs.queries is not None and outputs.positives is not None and outputs.negatives is not None:
        ranked = outputs.queries, outputs.positives, outputs.negatives
        parts["rank_loss"] = rank_loss(stage.rank, *ranked, known)
        parts |= _regularizers(stage, *ranked, ramp)
    return torch.stack(list(parts.values())).sum(), parts


def rank_loss(rank: Rank, queries: Tensor, positives: Tensor, negatives: Tensor, known: Tensor) -> Tensor:
    """The ranking loss over dot products, a scalar."""
    count = len(queries)
    hard = _own_hard_scores(queries, negatives) * rank.score_scale
    if rank.loss == "pairwise":
        return pairwise_nll((queries * positives).sum(dim=1) * rank.score_scale, hard)
    in_batch = queries @ positives.T * rank.score_scale
    if rank.others_hard_negatives:
        hard = queries @ negatives.T * rank.score_scale
    return in_batch_nll(in_batch, hard, excluded(rank, known.to(hard.device), count))


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
    return float((~excluded(stage.rank, known, count)).sum(dim=1).float().mean()) - 1


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
