"""A stage of training: its batches, prepared in the background; parameters, optimizer, and the gradients of a step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from encoders.backbone.device import random_state, set_random_state
from encoders.checkpoints.tokenizer import tokenize_texts
from encoders.models import SIDES
from encoders.models.objectives import Objective, Tokens
from encoders.training.examples import Example, Examples, examples_at, labels_of
from encoders.training.objective import make_objective, total_loss
from encoders.training.recipe import Stage
from encoders.training.session import Session
from learned_sparse.core.errors import LearnedSparseError, did_you_mean

if TYPE_CHECKING:
    from encoders.models.spade import SpaDE
    from encoders.training.spade import Pruner

MicroBatch = tuple[Tokens, Tokens]
"""The texts of one forward pass: queries; and documents, all positives, then the hard negatives query by query."""


Update = tuple[Sequence[Example], Sequence[MicroBatch]]
"""The examples that are ranked together, of which every process has all, and the texts of this process's own share."""


class Learner:
    """The model of a session under one stage: its batches, and updates of it or of its components."""

    def __init__(self, stage: Stage, session: Session, sources: Sequence[Examples] = (), number: int = 0) -> None:
        """Give the model the settings of ``stage``, freeze what it does not train, and make a fresh optimizer.

        Co-training has two objectives. Without ``dropout`` the towers, which hold all dropout, stay in evaluation mode.
        A side in training mode leaves out steps that have no gradient, such as binarising. ``number`` of the stage,
        from 0: each has its own order of the examples of ``sources``.
        """
        session.use_settings(stage)
        self.stage, self.session, model, options = stage, session, session.model, stage.options
        self._sources, self._number = sources, number
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
        model.weighers.requires_grad_(requires_grad=False)
        for parameter in self.parameters:
            parameter.requires_grad_(True)
        model.weighers.train()
        for module in (module for tower in model.towers.values() for module in tower.modules() if not stage.dropout):
            # transformers computes layers again in training mode only
            module.training = bool(getattr(module, "gradient_checkpointing", False))
        rates = learning_rates(stage, session) if stage.learning_rates else {}
        self.optimizer = make_optimizer(stage, self.parameters, rates)
        self.pruner: Pruner | None = None
        self.counting: Callable[[], AbstractContextManager[None]] = nullcontext
        if options.pruning is not None:
            from encoders.training.spade import Pruner

            self.pruner = Pruner(options.pruning, cast("SpaDE", model.weighers.document), session.sum)
            self.counting = self.pruner.counting  # of the documents of all forward passes in a ``with`` block

    def batch(self, step: int) -> list[Update]:
        """The examples of ``step``: one update, or in co-training the updates to select examples from.

        A pure function of data, seed and step number.
        """
        cotraining, seed = self.stage.options.cotraining, self.session.recipe.seed
        size = self.stage.batch_size if cotraining is None else cotraining.select_from
        positions = range(step * size, (step + 1) * size)
        return self.cut(list(examples_at(self._sources, positions, seed * 1000 + self._number, seed, self._number)))

    def cut(self, examples: Sequence[Example]) -> list[Update]:
        """The updates of ``examples``; a last one with less than one example for each process is left out.

        This process has its share of an update, in micro-batches; shares differ by at most one example. Texts, each
        with its expansion, are truncated to ``max_length`` word pieces and padded to the longest.
        """
        updates, stage, lengths = list[Update](), self.stage, self.session.recipe.max_length
        tokenizer, device = self.session.model.tokenizer, self.session.device
        options: dict[str, Any] = {"truncation": True, "padding": True, "return_tensors": "pt"}
        process, processes = self.session.process_index, self.session.num_processes
        for start in range(0, len(examples), stage.batch_size):
            part, micro = examples[start : start + stage.batch_size], list[MicroBatch]()
            if len(part) < processes:
                continue
            first, end = (len(part) * number // processes for number in (process, process + 1))
            size = stage.micro_batch_size or end - first
            for at in range(first, end, size):
                own = part[at : min(at + size, end)]
                documents = [each.positive for each in own] + [text for each in own for text in each.negatives]
                sides = []
                for side, texts in (("query", [each.query for each in own]), ("document", documents)):
                    encoded = tokenize_texts(tokenizer, texts, max_length=lengths[side], **options)
                    sides.append(Tokens(encoded["input_ids"].to(device), encoded["attention_mask"].to(device)))
                micro.append((sides[0], sides[1]))
            updates.append((part, micro))
        return updates

    def stream(self, steps: range) -> Iterator[list[Update]]:
        """The batches of ``steps`` in order, two of them prepared ahead."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batches") as pool:
            waiting: list[Future[list[Update]]] = [pool.submit(self.batch, step) for step in steps[:2]]
            for number in range(len(steps)):
                batch = waiting.pop(0).result()
                waiting += [pool.submit(self.batch, step) for step in steps[number + 2 : number + 3]]
                yield batch

    def update(self, step: int, update: Update, component: str | None) -> dict[str, float]:
        """Update the weights once; returns the values to log.

        The share of lambda in force is ``((step + 1) / T)^2`` until step T, then 1 (SPLADE §3.2).
        """
        stage, session, objective = self.stage, self.session, self.objectives[component]
        examples, micro_batches = update
        ramps = {side: min(1.0, (step + 1) / max(1, stage.regularizer_of(side)[2])) ** 2 for side in SIDES}
        for group in self.optimizer.param_groups:
            group["lr"] = group["full_rate"] * learning_rate_share(stage, step)
        self.optimizer.zero_grad(set_to_none=True)
        loss = partial(total_loss, objective, labels_of(examples), stage, ramps)
        log = over_batch(objective, micro_batches, loss, session)
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


def learning_rates(stage: Stage, session: Session) -> dict[nn.Parameter, float]:
    """The rates of parameters that have their own; those of heads override those of components."""
    model, rates = session.model, dict[nn.Parameter, float]()
    known = dict(getattr(model.weighers.document, "components", {}))
    for name, rate in sorted(stage.learning_rates.items(), key=lambda item: item[0] == "head"):
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
    return rates


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
    objective: Objective,
    micro_batches: Sequence[MicroBatch],
    loss: Callable[[dict[str, Tensor]], tuple[Tensor, dict[str, Tensor]]],
    session: Session,
) -> dict[str, Tensor]:
    """Accumulate this process's share of the gradient of ``loss`` over all micro-batches of all processes.

    Returns the parts of the loss. The gradient does not depend on how the batch is cut; the shares of the processes
    have to be summed. Several micro-batches are passed forward twice, with the same dropout: first for the outputs
    alone, then, with the gradient of the loss by these, for the gradient of the parameters (gradient caching). Memory
    is that of one micro-batch.
    """
    single = len(micro_batches) == 1
    states, parts = [], []
    with torch.set_grad_enabled(single), session.autocast():
        for micro in micro_batches:
            states.append(random_state(session.device))
            parts.append(objective.outputs(*micro))
    local = {
        name: (first if single else torch.cat([part[name] for part in parts])).detach()
        for name, first in parts[0].items()
    }
    for name, tensor in local.items():
        tensor.requires_grad_(parts[0][name].requires_grad or not single)
    if not single:
        parts.clear()  # ``local`` has copies
    outputs = local
    if session.num_processes > 1:
        outputs = {}
        for name, own in local.items():
            shares = session.gather(own.detach())
            shares[session.process_index] = own
            outputs[name] = torch.cat(shares)
    total, log = loss(outputs)
    total.backward()
    starts = dict.fromkeys(local, 0)
    for number, micro in enumerate(micro_batches):
        if single:
            live = parts[number]
        else:
            set_random_state(states[number], session.device)
            with session.autocast():
                live = objective.outputs(*micro)
        tensors, gradients = [], []
        for name, output in live.items():
            gradient = local[name].grad
            if gradient is not None and output.requires_grad:
                tensors.append(output)
                gradients.append(gradient[starts[name] : starts[name] + len(output)])
            starts[name] += len(output)
        if tensors:
            torch.autograd.backward(tensors, gradients)
    return log
