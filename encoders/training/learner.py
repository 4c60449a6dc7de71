"""A model under one stage of training: one optimiser step, of the whole model or by co-training of two components."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor, nn

from encoders.models import Labels, Objective
from encoders.training.data import Example, MicroBatch, StepBatch, labels_of
from encoders.training.objective import make_objective, mean_weights, negatives_per_query, total_loss
from encoders.training.optimizing import (
    begin_stage,
    evaluating,
    learning_rate_share,
    means_of_step,
    over_batch,
    quadratic_ramp,
    set_learning_rates,
    trained_parameters,
)
from encoders.training.recipe import CoTraining, Stage
from encoders.training.session import Session
from learned_sparse.core.errors import LearnedSparseError

Context = Callable[[], AbstractContextManager[None]]
Outputs = Mapping[str, Tensor]
_BUCKET = 25_000_000
"""Gradients that the processes combine at a time: few large messages instead of one for each parameter."""


class Learner:
    """Forward passes, gradients and updates of one stage, of the whole model or of one component."""

    def __init__(self, stage: Stage, session: Session, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Co-training gives both learners one ``optimizer``: it skips parameters without gradient."""
        self.stage, self._session, model = stage, session, session.model
        self._objective: Objective = make_objective(stage, model)
        self.parameters = trained_parameters(stage, model, self._objective)
        self.optimizer = begin_stage(stage, model, self.parameters) if optimizer is None else optimizer

    @property
    def ranks(self) -> bool:
        """Whether the trained part can rank documents: it is validated, and mines negatives, only then."""
        return self._objective.ranks

    def step(self, batch: StepBatch, counting: Context = nullcontext) -> dict[str, float]:
        """Update the weights once; returns the values to log. ``counting`` is open during the forward passes."""
        set_learning_rates(self.optimizer, learning_rate_share(self.stage, batch.step))
        self.optimizer.zero_grad(set_to_none=True)
        with counting():
            logs = self._backward(batch)
        self._reduce()
        maximum = self.stage.max_gradient_norm
        norm = nn.utils.clip_grad_norm_(self.parameters, maximum if maximum is not None else float("inf"))
        values = {name: float(value) for name, value in logs.items()} | {"gradient_norm": float(norm)}
        if not all(map(math.isfinite, values.values())):
            raise LearnedSparseError(
                f"stage {self.stage.name}, step {batch.step + 1}: the loss or its gradient is not finite; "
                "lower learning_rate or rank: score_scale, or set max_gradient_norm"
            )
        self.optimizer.step()
        return values

    def _outputs(self, micro: MicroBatch) -> dict[str, Tensor]:
        with self._session.autocast():
            return self._objective.outputs(micro.queries, micro.documents)

    def _backward(self, batch: StepBatch) -> dict[str, Tensor]:
        """Gradients of this process, and means of the logged values over its forward passes."""
        micro_batches = [micro.to(self._session.device) for micro in batch.micro_batches]
        forwards: Sequence[Callable[[], dict[str, Tensor]]] = [
            functools.partial(self._outputs, micro) for micro in micro_batches
        ]
        sizes = [len(micro) for micro in micro_batches]
        logs: list[dict[str, Tensor]] = []
        if self.stage.scope == "batch":
            loss = self._loss(batch.examples, batch.step, logs)
            over_batch(forwards, loss, self._session.gather, self._session.process_index, self._session.device)
        else:
            start = self._session.process_index * (len(batch.examples) // self._session.num_processes)
            means: Mapping[str, Tensor] | None = None
            if self._regularizes_step(len(forwards)):
                means, forwards = means_of_step(forwards, sizes, mean_weights, self._session.mean, self._session.device)
            # in-batch negatives are those of one micro-batch (one GPU in the papers): they depend on its size
            for forward, size in zip(forwards, sizes, strict=True):
                loss = self._loss(batch.examples[start : start + size], batch.step, logs, means)
                (loss(forward()) * (size / sum(sizes))).backward()
                start += size
        return {name: _mean([log[name] for log in logs], sizes) for name in logs[0]}

    def _regularizes_step(self, micro_batches: int) -> bool:
        """Whether the regulariser of a micro-batch depends on the rest of the step: FLOPS does, L1 is linear."""
        regularizer = self.stage.regularizer
        divided = micro_batches > 1 or self._session.num_processes > 1
        weighted = regularizer.lambda_query != 0 or regularizer.lambda_document != 0
        return divided and weighted and (regularizer.kind, regularizer.scope) == ("flops", "step") and self.ranks

    def _loss(
        self,
        examples: Sequence[Example],
        step: int,
        logs: list[dict[str, Tensor]],
        step_means: Mapping[str, Tensor] | None = None,
    ) -> Callable[[Outputs], Tensor]:
        """The scalar loss of the outputs for ``examples``; appends to ``logs`` when it is called."""
        labels = labels_of(examples)
        regularizer = self.stage.regularizer
        ramp = quadratic_ramp(step, regularizer.ramp_steps)

        def loss(outputs: Outputs) -> Tensor:
            losses = self._objective.losses(outputs, labels)
            total, parts = total_loss(losses, outputs, regularizer, ramp, step_means)
            log = {"loss": total.detach(), **{name: part.detach() for name, part in parts.items()}}
            if "queries" in outputs:
                log |= _terms_per_text(outputs)
                log["negatives_per_query"] = torch.tensor(negatives_per_query(self.stage.rank, labels.known))
                if labels.scores is not None:
                    log["scored_per_query"] = labels.scores[:, 1:].isfinite().sum(dim=1).float().mean()
                log["lambda_query"] = torch.tensor(regularizer.lambda_query * ramp)
                log["lambda_document"] = torch.tensor(regularizer.lambda_document * ramp)
            logs.append(log)
            return total

        return loss

    def _reduce(self) -> None:
        """Combine the gradients of all processes: sums of shares in scope ``batch``, means otherwise."""
        if self._session.num_processes == 1:
            return
        reduction = "sum" if self.stage.scope == "batch" else "mean"
        for group in buckets(self.parameters, _BUCKET):
            gradients = [torch.zeros_like(each) if each.grad is None else each.grad for each in group]
            together = self._session.reduce(torch.cat([each.flatten() for each in gradients]), reduction=reduction)
            for parameter, part in zip(group, together.split([each.numel() for each in group]), strict=True):
                parameter.grad = part.view_as(parameter)


class CoLearner:
    """Co-training (SpaDE §3.3): two learners, one for each component; examples that are hard for one train the other.

    A step selects examples for both components, then updates both. The schedules of the stage run over selections.
    """

    ranks = True

    def __init__(self, stage: Stage, settings: CoTraining, session: Session) -> None:
        self.stage, self._settings, self._session, model = stage, settings, session, session.model
        component_stages = [replace(stage, component=name, cotraining=None) for name in self._settings.components]
        trained = [p for part in component_stages for p in trained_parameters(part, model, make_objective(part, model))]
        self.parameters = list(dict.fromkeys(trained))
        self.optimizer = begin_stage(stage, model, self.parameters)
        self._learners = [Learner(part, session, self.optimizer) for part in component_stages]
        pairwise = self._settings.loss == "pairwise"
        self._selecting = [make_objective(part, model, pairwise=pairwise) for part in component_stages]

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
        losses = [self._session.gather(component_losses) for component_losses in self._losses(batch, counting)]
        count = selected_count(len(batch.examples), self._settings.share, self._session.num_processes)
        chosen = [[batch.examples[index] for index in hardest(values, count)] for values in losses]
        means = [float(values.mean()) for values in losses]
        return list(zip(self._learners, reversed(chosen), means, strict=True))

    def _losses(self, batch: StepBatch, counting: Context) -> list[Tensor]:
        """The losses of each component on this process's examples, without dropout."""
        losses: list[list[Tensor]] = []
        start = self._session.process_index * (len(batch.examples) // self._session.num_processes)
        for group in self._groups([micro.to(self._session.device) for micro in batch.micro_batches]):
            end = start + sum(map(len, group))
            labels = labels_of(batch.examples[start:end])
            with evaluating(self._session.model.weighers), torch.no_grad(), counting():
                losses.append([self._group_losses(objective, group, labels) for objective in self._selecting])
            start = end
        return [torch.cat(part) for part in zip(*losses, strict=True)]

    def _group_losses(self, objective: Objective, group: Sequence[MicroBatch], labels: Labels) -> Tensor:
        """The loss of each query of micro-batches that are ranked together."""
        with self._session.autocast():
            parts = [objective.outputs(micro.queries, micro.documents) for micro in group]
        outputs = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        return torch.stack(list(objective.losses(outputs, labels).values())).sum(dim=0)

    def _groups(self, micro_batches: Sequence[MicroBatch]) -> list[Sequence[MicroBatch]]:
        """Micro-batches that are ranked together: one, or in scope ``batch`` those of one update of this process."""
        if self.stage.scope == "micro_batch":
            return [[micro] for micro in micro_batches]
        micro = self.stage.micro_batch_size or self.stage.batch_size
        size = max(1, self.stage.batch_size // self._session.num_processes // micro)
        return [micro_batches[start : start + size] for start in range(0, len(micro_batches), size)]

    def _train(
        self, batch: StepBatch, learner: Learner, examples: Sequence[Example], mean_loss: float
    ) -> dict[str, float]:
        logs = [learner.step(part) for part in self._parts(batch, examples)]
        return {**_averaged(logs), "loss_over_all": mean_loss, "selected": float(len(examples))}

    def _train_both(self, batch: StepBatch, counting: Context) -> list[dict[str, float]]:
        """Without selection, both train on everything in turns, so that documents are counted for both at once."""
        logs: list[list[dict[str, float]]] = [[] for _ in self._learners]
        for part in self._parts(batch, batch.examples):
            with counting():
                for learner, lines in zip(self._learners, logs, strict=True):
                    lines.append(learner.step(part))
        return [_averaged(lines) for lines in logs]

    def _parts(self, batch: StepBatch, examples: Sequence[Example]) -> Iterator[StepBatch]:
        """The updates: ``batch_size`` of ``examples`` each, on the device."""
        size, processes = self.stage.batch_size, self._session.num_processes
        for start in range(0, len(examples), size):
            part = examples[start : start + size]
            part = part[: len(part) // processes * processes]
            complete = len(part) == len(batch.examples)
            micro_batches = batch.micro_batches if complete else batch.cut(part)
            if part:
                on_device = [micro.to(self._session.device) for micro in micro_batches]
                yield StepBatch(batch.step, part, on_device, batch.cut)


def make_learner(stage: Stage, session: Session) -> Learner | CoLearner:
    """The model of ``session`` under ``stage``, with the settings of the stage and a fresh optimizer."""
    session.use_settings(stage)
    return Learner(stage, session) if stage.cotraining is None else CoLearner(stage, stage.cotraining, session)


def buckets(parameters: Sequence[nn.Parameter], size: int) -> Iterator[list[nn.Parameter]]:
    """``parameters`` in order, in groups of at most ``size`` numbers, or of one parameter.

    >>> [len(group) for group in buckets([nn.Parameter(torch.zeros(n)) for n in (3, 3, 9, 1)], 6)]
    [2, 1, 1]
    """
    group: list[nn.Parameter] = []
    for parameter in parameters:
        if group and sum(each.numel() for each in group) + parameter.numel() > size:
            yield group
            group = []
        group.append(parameter)
    if group:
        yield group


def selected_count(examples: int, share: float, processes: int = 1) -> int:
    """The number of selected examples: ``share`` of ``examples``, rounded down to the same number for each process.

    >>> selected_count(1024, 0.3), selected_count(10, 0.7), selected_count(1, 0.3)
    (307, 7, 1)
    """
    count = int(share * examples + 1e-9)  # 0.29 * 100 is just below 29
    return max(1, count // processes) * processes


def hardest(losses: Tensor, count: int) -> list[int]:
    """The indices of the ``count`` largest of ``losses`` in ascending order; of equal losses, the first.

    >>> hardest(torch.tensor([0.5, 2.0, 0.1, 2.0]), 2), hardest(torch.tensor([1.0, 1.0, 1.0]), 2)
    ([1, 3], [0, 1])
    """
    indices: list[int] = losses.sort(descending=True, stable=True).indices[:count].tolist()
    return sorted(indices)


def _averaged(logs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(log[name] for log in logs) / len(logs) for name in logs[0]}


def _mean(values: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """The mean over forward passes of ``sizes`` queries; a single value is already that of all of them."""
    if len(values) == 1:
        return values[0]
    return torch.stack([value * (size / sum(sizes)) for value, size in zip(values, sizes, strict=True)]).sum()


def _terms_per_text(outputs: Outputs) -> dict[str, Tensor]:
    """Mean number of non-zero weights."""
    documents = torch.cat([outputs["positives"].detach(), outputs["negatives"].detach()])
    return {
        "terms_per_query": (outputs["queries"].detach() > 0).sum(dim=1).float().mean(),
        "terms_per_document": (documents > 0).sum(dim=1).float().mean(),
    }
