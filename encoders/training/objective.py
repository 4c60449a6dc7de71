"""The ranking objective of a stage, its losses and regularisers, and the scalar that a step minimises.

Regularisers are functions of the weights of all texts of a step, of all micro-batches and processes, so that they need
not be linear in the texts; ``REGULARIZERS`` of ``recipe`` names them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from encoders.encoding.model import LoadedModel
from encoders.models import SIDES
from encoders.models.architecture import Architecture
from encoders.models.objectives import Labels, Objective, TermWeighers, Tokens
from encoders.training.recipe import REGULARIZERS, Distillation, Rank, Stage
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

SIDE_OUTPUTS: Mapping[Side, tuple[str, ...]] = {"query": ("queries",), "document": ("positives", "negatives")}
"""The outputs of a ranking objective that are weights of each side."""


@dataclass
class RankingObjective:
    """The ranking loss and the distillation over dot products, on the whole model or on one component."""

    rank: Rank
    weighers: TermWeighers
    towers: tuple[str, ...]
    distillation: Distillation | None = None
    ranks: bool = True

    def outputs(self, queries: Tokens, documents: Tokens) -> dict[str, Tensor]:
        """Weights ``queries``, ``positives`` and ``negatives``."""
        query_weights = self.weighers.query(*queries).float()
        weights = self.weighers.document(*documents).float()
        count = len(query_weights)
        return {"queries": query_weights, "positives": weights[:count], "negatives": weights[count:]}

    def losses(self, outputs: Mapping[str, Tensor], labels: Labels) -> dict[str, Tensor]:
        """The ranking loss of each query, and the losses of its distillation."""
        queries, positives, negatives = (outputs[name] for name in ("queries", "positives", "negatives"))
        losses: dict[str, Tensor] = {}
        if self.rank.loss != "none":
            losses["rank_loss"] = rank_losses(self.rank, queries, positives, negatives, labels.known)
        if self.distillation is not None:
            if labels.scores is None:
                raise LearnedSparseError("distillation: the examples have no teacher's scores; give their sources some")
            own = (queries * positives).sum(dim=1, keepdim=True)
            student = torch.cat([own, _own_hard_scores(queries, negatives)], dim=1) * self.rank.score_scale
            losses |= distillation_losses(self.distillation, student, labels.scores.to(student))
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
        raise LearnedSparseError(f"stage {stage.name}: this architecture has no objective {stage.objective!r}{hint}")
    objective = family.objective(RankingObjective(stage.rank, part, towers, stage.distillation), stage, part)
    if not objective.ranks and any(stage.regularizer_of(side)[0] != "none" for side in SIDES):
        raise LearnedSparseError(
            f"stage {stage.name}: objective: {stage.objective} has no weights to regularise; leave regularizer out"
        )
    return objective


def total_loss(
    objective: Objective,
    labels: Labels,
    stage: Stage,
    ramps: Mapping[Side, float],
    outputs: Mapping[str, Tensor],
) -> tuple[Tensor, dict[str, Tensor]]:
    """The scalar to minimise: the sum of the means of the losses, and of the regularisers of the weights.

    Also returns the values to log: the scalar, its parts, and terms and lambda of each side. ``ramps``: the share of
    each side's lambda in force. Positives and hard negatives are regularised as one batch, the formula of the SPLADE
    paper.
    """
    parts = {name: values.mean() for name, values in objective.losses(outputs, labels).items()}
    terms: dict[str, Tensor] = {}
    for side, names in SIDE_OUTPUTS.items():
        if names[0] not in outputs:
            continue
        kind, weight, _, threshold = stage.regularizer_of(side)
        if kind != "none":
            weights = torch.cat([outputs[name] for name in names])
            weights = weights if threshold is None else masked(weights, threshold)
            parts[f"{side}_regularizer"] = REGULARIZERS[kind](weights) * (weight * ramps[side])
        counts = [(outputs[name].detach() > 0).sum(dim=1) for name in names]
        terms[f"terms_per_{side}"] = torch.cat(counts).float().mean()
        terms[f"lambda_{side}"] = torch.tensor(weight * ramps[side])
    total = torch.stack(list(parts.values())).sum()
    return total, {"loss": total.detach(), **{name: part.detach() for name, part in parts.items()}, **terms}


def rank_losses(rank: Rank, queries: Tensor, positives: Tensor, negatives: Tensor, known: Tensor) -> Tensor:
    """The ranking loss of each query over dot products, (queries,).

    Left out are documents that are ``known`` to be relevant, and those of queries in another group of
    ``negatives_from``.
    """
    count = len(queries)
    if rank.loss == "pairwise":
        positive_scores = (queries * positives).sum(dim=1) * rank.score_scale
        return pairwise_nll(positive_scores, _own_hard_scores(queries, negatives) * rank.score_scale)
    in_batch = queries @ positives.T * rank.score_scale
    left_out = known.to(in_batch.device)  # (queries, positives + hard negatives)
    numbers = torch.arange(count, device=left_out.device)
    if rank.negatives_from is not None:
        groups = numbers // rank.negatives_from
        columns = torch.cat([groups, groups.repeat_interleave(known.shape[1] // count - 1)])
        left_out = left_out | (groups.unsqueeze(1) != columns)
    if rank.loss == "hinge":
        return in_batch_hinge(in_batch, left_out[:, :count])
    if rank.others_hard_negatives:
        return in_batch_nll(in_batch, queries @ negatives.T * rank.score_scale, left_out)
    own = left_out[:, count:].view(count, count, -1)[numbers, numbers]  # the hard negatives of each query itself
    hard = _own_hard_scores(queries, negatives) * rank.score_scale
    return in_batch_nll(in_batch, hard, torch.cat([left_out[:, :count], own], dim=1))


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


def masked(weights: Tensor, threshold: int) -> Tensor:
    """``weights`` (texts, dimensions) with zeros for texts of at most ``threshold`` terms: the L0 mask.

    Such a text still counts in means (arXiv 2504.14839, and ``threshold`` of sentence-transformers' ``FlopsLoss``).
    """
    return weights * ((weights != 0).sum(dim=1, keepdim=True) > threshold)
