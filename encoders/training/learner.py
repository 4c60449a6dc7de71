"""A model under one stage of training: one optimiser step, of the whole model or by co-training of two components."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from encoders.models.architecture import Objective
from encoders.training.data.batches import MicroBatch, StepBatch, Update, labels_of
from encoders.training.data.examples import Example
from encoders.training.objective import SIDE_OUTPUTS, make_objective, negatives_per_query, total_loss
from encoders.training.optimizing import (
    begin_stage,
    evaluating,
    learning_rate_share,
    over_batch,
    quadratic_ramp,
    set_learning_rates,
    trained_parameters,
)
from encoders.training.options import CoTraining, spade_options
from encoders.training.recipe import SIDES, Stage
from encoders.training.session import Session
from learned_sparse.core.errors import LearnedSparseError

Context = Callable[[], AbstractContextManager[None]]
Outputs = Mapping[str, Tensor]


class Learner:
    """Forward passes, gradients and updates of one stage, of the whole model or of one component."""

    def __init__(self, stage: Stage, session: Session, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Co-training gives both learners one ``optimizer``: it skips parameters without gradient."""
        self.stage, self._session, model = stage, session, session.model
        self.objective: Objective = make_objective(stage, model)
        self.ranks = self.objective.ranks  # the trained part is validated, and mines negatives, only if it ranks
        self.parameters = trained_parameters(stage, model, self.objective)
        self.optimizer = begin_stage(stage, model, self.parameters) if optimizer is None else optimizer

    def step(self, batch: StepBatch, counting: Context = nullcontext) -> dict[str, float]:
        """Update the weights once; returns the values to log. ``counting`` is open during the forward passes."""
        with counting():
            return self.update(batch.step, batch.updates[0])

    def update(self, step: int, batch: Update) -> dict[str, float]:
        """Update the weights once on ``batch``, with the schedules of ``step``; returns the values to log."""
        set_learning_rates(self.optimizer, learning_rate_share(self.stage, step))
        self.optimizer.zero_grad(set_to_none=True)
        session, log = self._session, dict[str, Tensor]()
        forwards = [functools.partial(outputs_of, self.objective, micro, session) for micro in batch.micro_batches]
        loss = functools.partial(self._loss, batch.examples, step, log)
        over_batch(forwards, loss, session.gather, session.process_index, session.device)
        if session.num_processes > 1:  # each has its share of the gradient
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad = session.reduce(parameter.grad)
        maximum = self.stage.max_gradient_norm
        norm = nn.utils.clip_grad_norm_(self.parameters, maximum if maximum is not None else float("inf"))
        values = {name: float(value) for name, value in log.items()} | {"gradient_norm": float(norm)}
        if not all(map(math.isfinite, values.values())):
            raise LearnedSparseError(
                f"stage {self.stage.name}, step {step + 1}: the loss or its gradient is not finite; "
                "lower learning_rate or rank: score_scale, or set max_gradient_norm"
            )
        self.optimizer.step()
        return values

    def _loss(self, examples: Sequence[Example], step: int, log: dict[str, Tensor], outputs: Outputs) -> Tensor:
        """The scalar loss of the outputs for ``examples``; adds the values to log to ``log``."""
        labels, stage = labels_of(examples), self.stage
        ramps = {side: quadratic_ramp(step, stage.ramp_steps(side)) for side in SIDES}
        losses = self.objective.losses(outputs, labels)
        total, parts = total_loss(losses, outputs, stage.regularizer, ramps)
        log |= {"loss": total.detach(), **{name: part.detach() for name, part in parts.items()}}
        for side, names in SIDE_OUTPUTS.items():
            if names[0] in outputs:
                terms = [(outputs[name].detach() > 0).sum(dim=1) for name in names]
                log[f"terms_per_{side}"] = torch.cat(terms).float().mean()
                log[f"lambda_{side}"] = torch.tensor(stage.regularizer.side(side).weight * ramps[side])
        if "queries" in outputs:
            log["negatives_per_query"] = torch.tensor(negatives_per_query(stage.rank, labels.known))
            if labels.scores is not None:
                log["scored_per_query"] = labels.scores[:, 1:].isfinite().sum(dim=1).float().mean()
        return total


def outputs_of(objective: Objective, micro: MicroBatch, session: Session) -> dict[str, Tensor]:
    """Outputs of one forward pass."""
    with session.autocast():
        return objective.outputs(micro.queries, micro.documents)


class CoLearner:
    """Co-training (SpaDE §3.3): two learners, one for each component; examples that are hard for one train the other.

    A step selects examples for both components, then updates both. The schedules of the stage run over selections.
    """

    ranks = True

    def __init__(self, stage: Stage, settings: CoTraining, session: Session) -> None:
        self.stage, self._settings, self._session, model = stage, settings, session, session.model
        alone = replace(spade_options(stage), cotraining=None)
        component_stages = [replace(stage, component=name, options=alone) for name in self._settings.components]
        trained = [p for part in component_stages for p in trained_parameters(part, model, make_objective(part, model))]
        self.parameters = list(dict.fromkeys(trained))
        self.optimizer = begin_stage(stage, model, self.parameters)
        self._learners = [Learner(part, session, self.optimizer) for part in component_stages]

    def step(self, batch: StepBatch, counting: Context = nullcontext) -> dict[str, float]:
        """Select from ``batch`` and update both components; returns the values to log, by component and over both.

        ``counting`` is open while all examples are looked at, and closed while the selected ones train.
        """
        if self._settings.share < 1:
            logs = [self._train(batch, *selected) for selected in self._select(batch, counting)]
        else:
            logs = self._train_both(batch, counting)
        named = {
            f"{name}_{key}": value
            for name, values in zip(self._settings.components, logs, strict=True)
            for key, value in values.items()
        }
        return {"loss": sum(values["loss"] for values in logs) / len(logs), **named}

    def _select(self, batch: StepBatch, counting: Context) -> list[tuple[Learner, Sequence[Example], float]]:
        """Each learner, the examples that the other one selects for it, and its own mean loss over all examples."""
        losses, examples = self._losses(batch, counting), batch.examples
        chosen = [[examples[index] for index in hardest(values, self._settings.selected)] for values in losses]
        means = [float(values.mean()) for values in losses]
        return list(zip(self._learners, reversed(chosen), means, strict=True))

    def _losses(self, batch: StepBatch, counting: Context) -> list[Tensor]:
        """The losses of each component on all examples, without dropout; a query is ranked against its update."""
        losses: list[list[Tensor]] = []
        for update in batch.updates:
            with evaluating(self._session.model.weighers), torch.no_grad(), counting():
                losses.append([self._losses_of(learner.objective, update) for learner in self._learners])
        return [torch.cat(part) for part in zip(*losses, strict=True)]

    def _losses_of(self, objective: Objective, update: Update) -> Tensor:
        """The loss of each query of an update."""
        parts = [outputs_of(objective, micro, self._session) for micro in update.micro_batches]
        outputs = {
            name: torch.cat(self._session.gather(torch.cat([part[name] for part in parts]))) for name in parts[0]
        }
        return torch.stack(list(objective.losses(outputs, labels_of(update.examples)).values())).sum(dim=0)

    def _train(
        self, batch: StepBatch, learner: Learner, examples: Sequence[Example], mean_loss: float
    ) -> dict[str, float]:
        logs = [learner.update(batch.step, part) for part in batch.cut(examples)]
        return {**_averaged(logs), "loss_over_all": mean_loss, "selected": float(len(examples))}

    def _train_both(self, batch: StepBatch, counting: Context) -> list[dict[str, float]]:
        """Without selection, both train on everything in turns, so that documents are counted for both at once."""
        logs: list[list[dict[str, float]]] = [[] for _ in self._learners]
        for update in batch.updates:
            with counting():
                for learner, lines in zip(self._learners, logs, strict=True):
                    lines.append(learner.update(batch.step, update))
        return [_averaged(lines) for lines in logs]


def make_learner(stage: Stage, session: Session) -> Learner | CoLearner:
    """The model of ``session`` under ``stage``, with the settings of the stage and a fresh optimizer."""
    session.use_settings(stage)
    cotraining = spade_options(stage).cotraining
    return Learner(stage, session) if cotraining is None else CoLearner(stage, cotraining, session)


def hardest(losses: Tensor, count: int) -> list[int]:
    """The indices of the ``count`` largest of ``losses`` in ascending order; of equal losses, the first.

    >>> hardest(torch.tensor([0.5, 2.0, 0.1, 2.0]), 2), hardest(torch.tensor([1.0, 1.0, 1.0]), 2)
    ([1, 3], [0, 1])
    """
    indices: list[int] = losses.sort(descending=True, stable=True).indices[:count].tolist()
    return sorted(indices)


def _averaged(logs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(log[name] for log in logs) / len(logs) for name in logs[0]}
