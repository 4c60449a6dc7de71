"""A model under one stage of training: parameters, optimizer and schedules, and the gradients of one step."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from encoders.backbone.device import autocast, random_state, set_random_state
from encoders.encoding.model import LoadedModel
from encoders.models import SIDES
from encoders.training.data.batches import Batches, MicroBatch, Update, labels_of
from encoders.training.objective import SIDE_OUTPUTS, make_objective, total_loss
from encoders.training.recipe import Stage
from encoders.training.session import Session
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

if TYPE_CHECKING:
    from encoders.models.spade import SpaDE
    from encoders.training.spade import Pruner

Outputs = dict[str, Tensor]


class Learner:
    """The model of a session under one stage: forward passes, gradients and updates of it, or of its components."""

    def __init__(self, stage: Stage, session: Session) -> None:
        """Give the model the settings of ``stage``, and make a fresh optimizer. Co-training has two objectives."""
        session.use_settings(stage)
        self.stage, self.session, model, options = stage, session, session.model, stage.options
        names: tuple[str | None, ...] = (stage.component,)
        if options.cotraining is not None:
            from encoders.models.spade import COMPONENTS

            names = COMPONENTS
        self.objectives = {name: make_objective(replace(stage, component=name), model) for name in names}
        # the trained part is validated, and mines negatives, only if it ranks
        self.ranks = all(objective.ranks for objective in self.objectives.values())
        trained: list[nn.Parameter] = []
        for name, objective in self.objectives.items():
            part, towers = model.weighers.part(name), model.towers
            of_towers = (towers[tower].trainable_parameters() for tower in objective.towers if tower in towers)
            trainable = set(itertools.chain(*of_towers))
            trained += (p for p in (*part.document.parameters(), *part.query.parameters()) if p in trainable)
        self.parameters = list(dict.fromkeys(trained))
        self.optimizer = begin_stage(stage, model, self.parameters)
        self.pruner: Pruner | None = None
        if options.pruning is not None:
            from encoders.training.spade import Pruner

            self.pruner = Pruner(options.pruning, cast("SpaDE", model.weighers.document), session.sum)

    def step(self, step: int, updates: Sequence[Update], batches: Batches) -> dict[str, float]:
        """Train on the ``updates`` of ``step``, which ``batches`` made; returns the values to log.

        A pruner counts the documents of the forward passes.
        """
        if self.stage.options.cotraining is not None:
            from encoders.training.spade import cotrain

            return cotrain(self, step, updates, batches, self.stage.options.cotraining)
        with self.counting():
            return self.update(step, updates[0], self.stage.component)

    def counting(self) -> AbstractContextManager[None]:
        """Let the pruner, if there is one, count the documents of all forward passes in the ``with`` block."""
        return nullcontext() if self.pruner is None else self.pruner.counting()

    def update(self, step: int, update: Update, component: str | None) -> dict[str, float]:
        """Update the weights once; returns the values to log.

        The share of lambda in force is ``((step + 1) / T)^2`` until step T, then 1 (SPLADE §3.2).
        """
        stage, session, objective, log = self.stage, self.session, self.objectives[component], dict[str, Tensor]()
        labels = labels_of(update.examples)
        ramps = {side: min(1.0, (step + 1) / max(1, stage.ramp_steps(side))) ** 2 for side in SIDES}

        def loss(outputs: Outputs) -> Tensor:
            total, parts = total_loss(objective.losses(outputs, labels), outputs, stage.regularizer, ramps)
            log.update({"loss": total.detach(), **{name: part.detach() for name, part in parts.items()}})
            for side, names in SIDE_OUTPUTS.items():
                if names[0] in outputs:
                    terms = [(outputs[name].detach() > 0).sum(dim=1) for name in names]
                    log[f"terms_per_{side}"] = torch.cat(terms).float().mean()
                    log[f"lambda_{side}"] = torch.tensor(stage.regularizer.side(side)[1] * ramps[side])
            return total

        for group in self.optimizer.param_groups:
            group["lr"] = group["full_rate"] * learning_rate_share(stage, step)
        self.optimizer.zero_grad(set_to_none=True)
        over_batch(functools.partial(self.outputs, component), update.micro_batches, loss, session)
        if session.num_processes > 1:  # each has its share of the gradient
            for parameter in self.parameters:
                if parameter.grad is not None:
                    parameter.grad = session.sum(parameter.grad)
        norm = nn.utils.clip_grad_norm_(self.parameters, stage.max_gradient_norm or float("inf"))
        values = {name: float(value) for name, value in log.items()} | {"gradient_norm": float(norm)}
        if not all(map(math.isfinite, values.values())):
            raise LearnedSparseError(
                f"stage {stage.name}, step {step + 1}: the loss or its gradient is not finite; "
                "lower learning_rate or rank: score_scale, or set max_gradient_norm"
            )
        self.optimizer.step()
        return values

    def outputs(self, component: str | None, micro: MicroBatch) -> Outputs:
        """Outputs of one forward pass."""
        with autocast(self.session.precision, self.session.device):  # the weights stay float32
            return self.objectives[component].outputs(*micro)


def begin_stage(stage: Stage, model: LoadedModel, trained: Sequence[nn.Parameter]) -> torch.optim.Optimizer:
    """Freeze all but the ``trained`` parameters, switch the model to training, and make a fresh optimizer.

    Without ``dropout`` the towers, which hold all dropout, stay in evaluation mode. A side in training mode leaves out
    steps that have no gradient, such as binarising. Learning rates of heads override those of components.
    """
    for parameter in model.weighers.parameters():
        parameter.requires_grad_(False)
    for parameter in trained:
        parameter.requires_grad_(True)
    model.weighers.train()
    for module in (module for tower in model.towers.values() for module in tower.modules() if not stage.dropout):
        # transformers computes layers again in training mode only
        module.training = bool(getattr(module, "gradient_checkpointing", False))
    rates = dict[nn.Parameter, float]()
    for name, rate in sorted(stage.learning_rates.items(), key=lambda item: item[0] == "head"):
        known = dict(getattr(model.weighers.document, "components", {}))
        if rate is None:
            continue
        if name == "head":
            parameters = [parameter for tower in model.towers.values() for parameter in tower.new_parameters()]
        elif name in known:
            parameters = list(model.weighers.part(name).parameters())
        else:
            hint = did_you_mean(name, [*known, "head"])
            raise LearnedSparseError(f"stage {stage.name}: learning_rates: no component {name!r}{hint}")
        if not parameters:
            raise LearnedSparseError(f"stage {stage.name}: learning_rates: {name}: no tower has a head of its own")
        rates |= dict.fromkeys(parameters, rate)
    return make_optimizer(stage, trained, rates)


def make_optimizer(
    stage: Stage, parameters: Iterable[nn.Parameter], rates: Mapping[nn.Parameter, float]
) -> torch.optim.Optimizer:
    """A fresh optimizer over ``parameters`` with the stage's learning rate, or that of ``rates``."""
    groups: dict[tuple[float, bool], list[nn.Parameter]] = {}
    for parameter in parameters:
        # as usual with BERT, biases and LayerNorm (the one-dimensional parameters) do not decay
        groups.setdefault((rates.get(parameter, stage.learning_rate), parameter.ndim > 1), []).append(parameter)
    described = [
        {"params": group, "lr": rate, "full_rate": rate, "weight_decay": stage.weight_decay if decays else 0.0}
        for (rate, decays), group in groups.items()
    ]
    # fused: one pass over each parameter, and no copies of all of them
    kind = torch.optim.Adam if stage.optimizer == "adam" else torch.optim.AdamW
    return kind(described, lr=stage.learning_rate, fused=True)


def learning_rate_share(stage: Stage, step: int) -> float:
    """The share of every learning rate at ``step`` (from 0): linear warm-up, then linear decay to 0 at the end.

    >>> stage = Stage(name="example", steps=6, batch_size=1, warm_up_steps=2)
    >>> [learning_rate_share(stage, step) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    warm_up, steps = stage.warm_up_steps, stage.steps
    if step < warm_up:
        return (step + 1) / warm_up
    return (steps - step) / max(1, steps - warm_up) if stage.decay else 1.0


def over_batch(
    forward: Callable[[MicroBatch], Outputs],
    micro_batches: Sequence[MicroBatch],
    loss: Callable[[Outputs], Tensor],
    session: Session,
) -> None:
    """Accumulate this process's share of the gradient of ``loss`` over all micro-batches of all processes.

    The result does not depend on how the batch is cut; the shares of the processes have to be summed. Several
    micro-batches are passed forward twice, with the same dropout: first for the outputs alone, then, with the gradient
    of the loss by these, for the gradient of the parameters (gradient caching). Memory is that of one micro-batch.
    """
    single = len(micro_batches) == 1
    states, parts = [], []
    with torch.set_grad_enabled(single):
        for micro in micro_batches:
            states.append(random_state(session.device))
            parts.append(forward(micro))
    local = {name: _joined([part[name].detach() for part in parts]) for name in parts[0]}
    for name, tensor in local.items():
        tensor.requires_grad_(parts[0][name].requires_grad or not single)
    if not single:
        parts.clear()  # ``local`` has copies
    outputs = {}
    for name, own in local.items():
        shares = session.gather(own.detach())
        shares[session.process_index] = own
        outputs[name] = _joined(shares)
    loss(outputs).backward()
    starts = dict.fromkeys(local, 0)
    for number, micro in enumerate(micro_batches):
        if not single:
            set_random_state(states[number], session.device)
        live, tensors, gradients = parts[number] if single else forward(micro), [], []
        for name, output in live.items():
            gradient = local[name].grad
            if gradient is not None and output.requires_grad:
                tensors.append(output)
                gradients.append(gradient[starts[name] : starts[name] + len(output)])
            starts[name] += len(output)
        if tensors:
            torch.autograd.backward(tensors, gradients)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))
