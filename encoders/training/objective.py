"""The ranking objective of a stage, its losses, and the scalar that a step minimises."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from encoders.encoding.model import LoadedModel
from encoders.models import SIDES
from encoders.models.architecture import Architecture
from encoders.models.objectives import Labels, Objective, TermWeighers, Tokens
from encoders.training.recipe import Distillation, Rank, Regularizer, Stage
from encoders.training.regularizers import REGULARIZERS, masked
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

SIDE_OUTPUTS: Mapping[Side, tuple[str, ...]] = {"query": ("queries",), "document": ("positives", "negatives")}
"""The outputs of a ranking objective that are weights of each side."""


class RankingObjective(Objective):
    """The ranking loss and the distillation over dot products, on the whole model or on one component."""

    ranks = True

    def __init__(
        self, rank: Rank, weighers: TermWeighers, towers: tuple[str, ...], distillation: Distillation | None = None
    ) -> None:
        self.towers = towers
        self._rank, self._weighers, self._distillation = rank, weighers, distillation

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        """Weights ``queries``, ``positives`` and ``negatives``."""
        query_weights = self._weighers.query(*queries).float()
        weights = self._weighers.document(*documents).float()
        count = len(query_weights)
        return {"queries": query_weights, "positives": weights[:count], "negatives": weights[count:]}

    def losses(self, outputs: Mapping[str, Tensor], labels: Labels) -> dict[str, Tensor]:
        """The ranking loss of each query, and the losses of its distillation."""
        queries, positives, negatives = (outputs[name] for name in ("queries", "positives", "negatives"))
        losses: dict[str, Tensor] = {}
        if self._rank.loss != "none":
            losses["rank_loss"] = rank_losses(self._rank, queries, positives, negatives, labels.known)
        if self._distillation is not None:
            if labels.scores is None:
                raise LearnedSparseError("distillation: the examples have no teacher's scores; give their sources some")
            own = (queries * positives).sum(dim=1, keepdim=True)
            student = torch.cat([own, _own_hard_scores(queries, negatives)], dim=1) * self._rank.score_scale
            losses |= distillation_losses(self._distillation, student, labels.scores.to(student))
        return losses


def make_objective(stage: Stage, model: LoadedModel) -> Objective:
    """What ``stage`` minimises on ``model``."""
    family: Architecture = model.settings
    part, towers = model.weighers.part(stage.component), family.trained_by_ranking
    if stage.objective == "mlm":
        from encoders.training.mlm import MaskedLMObjective

        return MaskedLMObjective(stage, model, part)
    if stage.objective not in family.objectives:
        hint = did_you_mean(stage.objective, family.objectives)
        raise LearnedSparseError(
            f"stage {stage.name}: this architecture has no objective {stage.objective!r}; it has "
            f"{', '.join(family.objectives)}{hint}"
        )
    objective = family.objective(RankingObjective(stage.rank, part, towers, stage.distillation), stage, part)
    if not objective.ranks and any(stage.regularizer.side(side)[0] != "none" for side in SIDES):
        raise LearnedSparseError(
            f"stage {stage.name}: objective: {stage.objective} has no weights to regularise; leave regularizer out"
        )
    return objective


def total_loss(
    losses: Mapping[str, Tensor],
    outputs: Mapping[str, Tensor],
    regularizer: Regularizer,
    ramps: Mapping[Side, float],
) -> tuple[Tensor, dict[str, Tensor]]:
    """The scalar to minimise, and its parts for the log: means of ``losses``, and the regularisers of the weights.

    ``ramps``: the share of each side's lambda in force.
    Positives and hard negatives are regularised as one batch, the formula of the SPLADE paper.
    """
    parts = {name: values.mean() for name, values in losses.items()}
    for side, names in SIDE_OUTPUTS.items():
        kind, weight, _, threshold = regularizer.side(side)
        if kind != "none" and names[0] in outputs:
            weights = masked(torch.cat([outputs[name] for name in names]), threshold)
            parts[f"{side}_regularizer"] = REGULARIZERS[kind](weights) * (weight * ramps[side])
    return torch.stack(list(parts.values())).sum(), parts


def rank_losses(rank: Rank, queries: Tensor, positives: Tensor, negatives: Tensor, known: Tensor) -> Tensor:
    """The ranking loss of each query over dot products, (queries,)."""
    count = len(queries)
    if rank.loss == "pairwise":
        positive_scores = (queries * positives).sum(dim=1) * rank.score_scale
        return pairwise_nll(positive_scores, _own_hard_scores(queries, negatives) * rank.score_scale)
    in_batch = queries @ positives.T * rank.score_scale
    left_out = excluded(rank, known.to(in_batch.device), count)
    if rank.loss == "hinge":
        return in_batch_hinge(in_batch, left_out[:, :count])
    hard = queries @ negatives.T if rank.others_hard_negatives else _own_hard_scores(queries, negatives)
    return in_batch_nll(in_batch, hard * rank.score_scale, left_out)


def excluded(rank: Rank, known: Tensor, count: int) -> Tensor:
    """The mask of ``in_batch_nll``: (queries, queries + hard negatives scored), True where a pair is left out.

    Left out are documents that are known to be relevant, and those of queries in another group of ``negatives_from``.

    >>> excluded(Rank(negatives_from=1), torch.zeros(2, 2, dtype=torch.bool), 2).tolist()
    [[False, True], [True, False]]
    """
    mask = known
    if rank.negatives_from is not None:
        groups = torch.arange(count, device=known.device) // rank.negatives_from
        columns = torch.cat([groups, groups.repeat_interleave(known.shape[1] // count - 1)])
        mask = mask | (groups.unsqueeze(1) != columns)
    hard = mask[:, count:]
    if not rank.others_hard_negatives:
        rows = torch.arange(count, device=hard.device)
        hard = hard.view(count, count, hard.shape[1] // count)[rows, rows]  # the hard negatives of each query itself
    return torch.cat([mask[:, :count], hard], dim=1)


def _own_hard_scores(queries: Tensor, negatives: Tensor) -> Tensor:
    """Scores (queries, h) of each query with its own hard negatives."""
    grouped = negatives.view(len(queries), len(negatives) // len(queries), negatives.shape[1])
    return (queries.unsqueeze(1) * grouped).sum(dim=2)


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


def distillation_losses(settings: Distillation, student: Tensor, teacher: Tensor) -> dict[str, Tensor]:
    """The weighted losses by name, each ``(queries,)``; ``student`` and ``teacher`` are ``(queries, 1 + negatives)``.

    Column 0 is the positive. Documents that the teacher has not scored (NaN) are left out; a query of which the
    positive or all negatives have no score has a loss of 0.
    """
    scored = teacher.isfinite()
    scored &= scored[:, :1] & scored[:, 1:].any(dim=1, keepdim=True)
    losses: dict[str, Tensor] = {}
    if settings.margin_mse:
        losses["margin_mse"] = settings.margin_mse * margin_mse(student, teacher, scored)
    if settings.kl:
        losses["kl"] = settings.kl * kl_divergence(student, teacher, scored)
    return losses


def margin_mse(student: Tensor, teacher: Tensor, scored: Tensor) -> Tensor:
    """Mean over the scored negatives of ``((s+ - s-) - (t+ - t-))^2`` of each query, ``(queries,)``.

    >>> scores = torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[5.0, 4.0, 1.0]])
    >>> margin_mse(*scores, torch.ones(1, 3, dtype=torch.bool)).item()  # ((2 - 1)^2 + (1 - 4)^2) / 2
    5.0
    """
    errors = (student[:, :1] - student[:, 1:]) - (teacher[:, :1] - teacher[:, 1:])
    negatives = scored[:, 1:]
    return errors.masked_fill(~negatives, 0.0).square().sum(dim=1) / negatives.sum(dim=1).clamp(min=1)


def kl_divergence(student: Tensor, teacher: Tensor, scored: Tensor) -> Tensor:
    """``KL(softmax(teacher) || softmax(student))`` over the scored documents, ``(queries,)``."""
    missing = torch.finfo(student.dtype).min
    logs = student.masked_fill(~scored, missing).log_softmax(dim=1)
    targets = teacher.masked_fill(~scored, missing).log_softmax(dim=1)
    return (targets.exp() * (targets - logs)).masked_fill(~scored, 0.0).sum(dim=1)


def in_batch_hinge(in_batch: Tensor, excluded: Tensor) -> Tensor:
    """UHD-BERT Eq. 8 of each query, (queries,): the sum over others' positives of ``max(0, 1 - s+ + s-)``.

    ``in_batch`` (queries, queries) as in ``in_batch_nll``; ``excluded``, boolean, has the same shape.

    >>> in_batch_hinge(torch.tensor([[2.0, 1.5], [0.0, 3.0]]), torch.zeros(2, 2, dtype=torch.bool)).tolist()
    [0.5, 0.0]
    """
    diagonal = torch.eye(len(in_batch), dtype=torch.bool, device=in_batch.device)
    losses = functional.relu(1 - in_batch.diagonal().unsqueeze(1) + in_batch)
    return losses.masked_fill(diagonal | excluded, 0.0).sum(dim=1)
