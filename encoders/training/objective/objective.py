"""The ranking objective of a stage, and the scalar that a step minimises: losses plus regularisers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from encoders.encoding import LoadedModel, architecture_named
from encoders.models import Objective, TermWeighers, Tokens
from encoders.training.objective.losses import (
    REGULARIZERS,
    document_regularizer,
    in_batch_hinge,
    in_batch_nll,
    pairwise_nll,
)
from encoders.training.recipe import Rank, Regularizer, Stage


class RankingObjective(Objective):
    """The ranking loss over dot products, on the whole model or on one component."""

    ranks = True

    def __init__(self, rank: Rank, weighers: TermWeighers, towers: tuple[str, ...]) -> None:
        self.towers = towers
        self._rank, self._weighers = rank, weighers

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        """Weights ``queries``, ``positives`` and ``negatives``."""
        query_weights = self._weighers.query(*queries).float()
        weights = self._weighers.document(*documents).float()
        count = len(query_weights)
        return {"queries": query_weights, "positives": weights[:count], "negatives": weights[count:]}

    def losses(self, outputs: Mapping[str, Tensor], known: Tensor) -> dict[str, Tensor]:
        """The ranking loss of each query."""
        return {"rank_loss": rank_losses(self._rank, *ranked(outputs), known)}


def make_objective(stage: Stage, model: LoadedModel, *, pairwise: bool = False) -> Objective:
    """What ``stage`` minimises on ``model``; with ``pairwise``, Eq. 7 on the part of the model that it trains."""
    family = architecture_named(model.architecture)
    part, towers = family.part(model.weighers, stage.component), family.trained_by_ranking(model.settings)
    if pairwise:
        return RankingObjective(replace(stage.rank, loss="pairwise"), part, towers)
    return family.objective(RankingObjective(stage.rank, part, towers), stage, part)


def total_loss(
    losses: Mapping[str, Tensor], outputs: Mapping[str, Tensor], regularizer: Regularizer, ramp: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """The scalar to minimise, and its parts for the log: means of ``losses``, and the regularisers of the weights.

    ``ramp``: the share of lambda in force.
    """
    parts = {name: values.mean() for name, values in losses.items()}
    if "queries" in outputs and regularizer.kind != "none":
        queries, positives, negatives = ranked(outputs)
        if regularizer.lambda_query:
            value = REGULARIZERS[regularizer.kind](queries)
            parts["query_regularizer"] = value * (regularizer.lambda_query * ramp)
        if regularizer.lambda_document:
            value = document_regularizer(regularizer.kind, positives, negatives, regularizer.documents)
            parts["document_regularizer"] = value * (regularizer.lambda_document * ramp)
    return torch.stack(list(parts.values())).sum(), parts


def ranked(outputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of queries, positives and negatives among the outputs of a ranking objective."""
    return outputs["queries"], outputs["positives"], outputs["negatives"]


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
    """The mask of ``in_batch_nll``: (queries, queries + hard negatives scored), True where a pair is left out."""
    hard = known[:, count:]
    if not rank.others_hard_negatives:
        rows = torch.arange(count, device=hard.device)
        hard = hard.view(count, count, hard.shape[1] // count)[rows, rows]  # the hard negatives of each query itself
    mask = torch.cat([known[:, :count], hard], dim=1)
    return mask if rank.mask_known_positives else torch.zeros_like(mask)


def negatives_per_query(rank: Rank, known: Tensor) -> float:
    """Mean number of negatives that a query is ranked against; logged because a silent mistake would change it."""
    count = len(known)
    if rank.loss == "pairwise":
        return (known.shape[1] - count) / count
    scored = ~excluded(rank, known, count)
    if rank.loss == "hinge":
        scored = scored[:, :count]
    return float(scored.sum(dim=1).float().mean()) - 1


def _own_hard_scores(queries: Tensor, negatives: Tensor) -> Tensor:
    """Scores (queries, h) of each query with its own hard negatives."""
    own = negatives.view(len(queries), len(negatives) // len(queries), negatives.shape[1])
    return (queries.unsqueeze(1) * own).sum(dim=2)
