"""A model under one stage of training: one optimiser step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from encoders.models import TermWeighers
from encoders.training.data import Example, MicroBatch, StepBatch, bag_of_words, known_positives
from encoders.training.objective import (
    GATE,
    Outputs,
    begin_training,
    example_losses,
    freeze,
    learning_rate_share,
    make_optimizer,
    negatives_per_query,
    objective,
    over_batch,
    part_of,
    per_micro_batch,
    quadratic_ramp,
    set_learning_rates,
)
from encoders.training.recipe import Stage
from learned_sparse.core import LearnedSparseError

Counting = Callable[[], AbstractContextManager[None]]


class Processes(Protocol):
    """What a step needs of ``accelerate.Accelerator``."""

    @property
    def num_processes(self) -> int: ...

    @property
    def process_index(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def gather(self, tensor: Tensor) -> Tensor: ...

    def reduce(self, tensor: Tensor, reduction: str = "sum") -> Tensor: ...


class Learner:
    """Forward passes, gradients and updates of one stage, of the whole model or of one component."""

    def __init__(
        self,
        stage: Stage,
        weighers: TermWeighers,
        towers: Mapping[str, Any],
        *,
        special_ids: Sequence[int],
        processes: Processes,
        autocast: Callable[[], AbstractContextManager[None]],
        optimizer: torch.optim.Optimizer | None = None,
    ) -> None:
        """``weighers`` has the modules ``query`` and ``document``, which read ``towers``.

        Learners that take turns share the ``optimizer`` of the first: whoever has no gradient is not moved by it.
        """
        self.stage, self.module = stage, weighers
        self._part = part_of(weighers, stage.component)
        self._document: Any = self._part.document
        self._special_ids, self._processes, self._autocast = special_ids, processes, autocast
        self._uses_gate = stage.objective == "gate" or stage.joint
        if self._uses_gate and GATE not in towers:
            raise LearnedSparseError(
                f"stage {stage.name}: the model has no gate to train; SparTerm has, in another mode"
            )
        self._dimensions = int(next(iter(towers.values())).vocabulary_size)
        if optimizer is None:
            freeze(stage, weighers, towers)
            begin_training(weighers, towers, dropout=stage.dropout)
            optimizer = make_optimizer(stage, weighers, towers, self.parameters())
        self.optimizer = optimizer

    def step(self, batch: StepBatch, counting: Counting = nullcontext) -> dict[str, float]:
        """One update of the weights; what to log about it. ``counting`` counts terms of documents as they pass."""
        set_learning_rates(self.optimizer, learning_rate_share(self.stage, batch.step))
        self.optimizer.zero_grad(set_to_none=True)
        with counting():
            logs = self._backward(batch)
        self._reduce()
        maximum = self.stage.max_gradient_norm
        norm = nn.utils.clip_grad_norm_(self.parameters(), maximum if maximum is not None else float("inf"))
        found = {name: float(value) for name, value in logs.items()} | {"gradient_norm": float(norm)}
        if not all(map(math.isfinite, found.values())):
            raise LearnedSparseError(
                f"stage {self.stage.name}, step {batch.step + 1}: the loss or its gradient is not finite; "
                "lower learning_rate or rank: score_scale, or set max_gradient_norm"
            )
        self.optimizer.step()
        return found

    def parameters(self) -> list[nn.Parameter]:
        """The parameters this stage trains."""
        return [parameter for parameter in self._part.parameters() if parameter.requires_grad]

    def learning_rate(self, step: int) -> float:
        """The learning rate of ``step``, where no head or component has another."""
        return self.stage.learning_rate * learning_rate_share(self.stage, step)

    def losses(self, examples: Sequence[Example], group: Sequence[MicroBatch], *, pairwise: bool) -> Tensor:
        """What each of ``examples`` costs when it is ranked against the others, (examples,), without gradient.

        ``group`` holds them in micro-batches. The caller says whether there is dropout.
        """
        with torch.no_grad():
            outputs = _joined([self._forward(micro) for micro in group])
            return example_losses(
                self.stage,
                outputs,
                known_positives(examples),
                component=self._part.component,
                kept=self._kept(),
                pairwise=pairwise,
            )

    def _own_start(self, batch: StepBatch) -> int:
        return self._processes.process_index * (len(batch.examples) // self._processes.num_processes)

    def _backward(self, batch: StepBatch) -> dict[str, Tensor]:
        micro_batches = [micro.to(self._processes.device) for micro in batch.micro_batches]
        forwards = [lambda micro=micro: self._forward(micro) for micro in micro_batches]
        sizes = [len(micro.queries.input_ids) for micro in micro_batches]
        logs: list[dict[str, Tensor]] = []
        if self.stage.scope == "batch":
            targets = [self._target(micro) for micro in micro_batches] if self._uses_gate else []
            target = self._processes.gather(torch.cat(targets)) if targets else None
            loss = self._loss(known_positives(batch.examples), target, batch.step, logs)
            over_batch(forwards, loss, self._processes.gather, self._processes.process_index)
        else:
            per_micro_batch(forwards, self._micro_losses(batch, micro_batches, logs), sizes)
        return {name: _mean([log[name] for log in logs], sizes) for name in logs[0]}

    def _micro_losses(
        self, batch: StepBatch, micro_batches: Sequence[MicroBatch], logs: list[dict[str, Tensor]]
    ) -> list[Callable[[Outputs], Tensor]]:
        losses, start = [], self._own_start(batch)
        for micro in micro_batches:
            own = batch.examples[start : start + len(micro.queries.input_ids)]
            target = self._target(micro) if self._uses_gate else None
            losses.append(self._loss(known_positives(own), target, batch.step, logs))
            start += len(own)
        return losses

    def _loss(
        self, known: Tensor, target: Tensor | None, step: int, logs: list[dict[str, Tensor]]
    ) -> Callable[[Outputs], Tensor]:
        ramp = quadratic_ramp(step, self.stage.regularizer.ramp_steps)

        def loss(outputs: Outputs) -> Tensor:
            component, kept = self._part.component, self._kept()
            total, parts = objective(self.stage, outputs, known, target, ramp, component=component, kept=kept)
            logs.append({"loss": total.detach(), **{name: part.detach() for name, part in parts.items()}})
            logs[-1] |= _sparsity(outputs)
            if outputs.queries is not None:
                logs[-1]["negatives_per_query"] = torch.tensor(negatives_per_query(self.stage, known))
                logs[-1]["lambda_query"] = torch.tensor(self.stage.regularizer.lambda_query * ramp)
                logs[-1]["lambda_document"] = torch.tensor(self.stage.regularizer.lambda_document * ramp)
            return total

        return loss

    def _forward(self, micro: MicroBatch) -> Outputs:
        count = len(micro.queries.input_ids)
        documents = (micro.documents.input_ids, micro.documents.attention_mask)
        with self._autocast():
            if self.stage.objective == "gate":
                return Outputs(gate=self._document.gate_logits(*(tensor[:count] for tensor in documents)).float())
            queries = self._part.query(micro.queries.input_ids, micro.queries.attention_mask).float()
            if not self.stage.joint:
                weights, gate = self._document(*documents).float(), None
            else:
                logits = self._document.gate_logits(*documents)
                weights, gate = self._document(*documents, gate_logits=logits).float(), logits[:count].float()
        return Outputs(queries=queries, positives=weights[:count], negatives=weights[count:], gate=gate)

    def _kept(self) -> Tensor | None:
        """The terms that the document side can still have, (dimensions,); ``None``: all of them."""
        kept: Tensor | None = getattr(self.module.document, "kept", None)
        return kept

    def _target(self, micro: MicroBatch) -> Tensor:
        return bag_of_words(micro.queries, self._dimensions, self._special_ids)

    def _reduce(self) -> None:
        """Bring the gradients of all processes together: partial sums in scope ``batch``, means otherwise."""
        if self._processes.num_processes == 1:
            return
        for parameter in self.parameters():
            gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
            how = "sum" if self.stage.scope == "batch" else "mean"
            parameter.grad = self._processes.reduce(gradient, reduction=how)


def _joined(outputs: Sequence[Outputs]) -> Outputs:
    names = ("queries", "positives", "negatives")
    return Outputs(**{name: torch.cat([getattr(output, name) for output in outputs]) for name in names})


def _mean(values: Sequence[Tensor], sizes: Sequence[int]) -> Tensor:
    """Over forward passes of so many queries; one value is of all of them."""
    if len(values) == 1:
        return values[0]
    return torch.stack([value * (size / sum(sizes)) for value, size in zip(values, sizes, strict=True)]).sum()


def _sparsity(outputs: Outputs) -> dict[str, Tensor]:
    """Non-zero weights per text."""
    found = {}
    if outputs.queries is not None and outputs.positives is not None and outputs.negatives is not None:
        documents = torch.cat([outputs.positives.detach(), outputs.negatives.detach()])
        found["terms_per_query"] = (outputs.queries.detach() > 0).sum(dim=1).float().mean()
        found["terms_per_document"] = (documents > 0).sum(dim=1).float().mean()
    return found
