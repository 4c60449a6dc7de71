"""Co-training (SpaDE §3.3): what is hard for one component of a model trains the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from encoders.models import TermWeighers
from encoders.training.data import Example, MicroBatch, StepBatch
from encoders.training.learner import Counting, Learner, Processes
from encoders.training.objective.modes import begin_training, evaluating
from encoders.training.objective.optimizing import freeze, make_optimizer
from encoders.training.recipe import CoTraining, Stage


class CoLearner:
    """Two learners, one for each component; a step is one selection and the updates that follow from it.

    Both select before either is updated. The schedules of the stage run over selections.
    """

    def __init__(
        self, stage: Stage, weighers: TermWeighers, towers: Mapping[str, Any], *, processes: Processes, **options: Any
    ) -> None:
        """Arguments as of ``Learner``."""
        if stage.cotraining is None:
            raise ValueError("a stage without co-training")
        self.stage, self.module = stage, weighers
        self._settings: CoTraining = stage.cotraining
        self._processes = processes
        freeze(stage, weighers, towers)
        begin_training(weighers, towers, dropout=stage.dropout)
        trained = [parameter for parameter in weighers.parameters() if parameter.requires_grad]
        self.optimizer = make_optimizer(stage, weighers, towers, trained)
        alone = [replace(stage, component=name, cotraining=None) for name in self._settings.components]
        shared = {**options, "processes": processes, "optimizer": self.optimizer}
        self._learners = [Learner(part, weighers, towers, **shared) for part in alone]

    def step(self, batch: StepBatch, counting: Counting = nullcontext) -> dict[str, float]:
        """Select from ``batch`` and update both components; what to log, by component and over both.

        ``counting`` counts terms of documents: of all that are looked at, not of the selected ones once more.
        """
        if self._settings.share < 1:
            found = [self._train(batch, *selected) for selected in self._select(batch, counting)]
        else:
            found = self._train_both(batch, counting)
        logs = {
            f"{name}_{key}": value
            for name, values in zip(self._settings.components, found, strict=True)
            for key, value in values.items()
        }
        return {"loss": sum(values["loss"] for values in found) / len(found), **logs}

    def parameters(self) -> list[nn.Parameter]:
        """The parameters of both components."""
        return [parameter for learner in self._learners for parameter in learner.parameters()]

    def learning_rate(self, step: int) -> float:
        """The learning rate of ``step``, where no head or component has another."""
        return self._learners[0].learning_rate(step)

    def _select(self, batch: StepBatch, counting: Counting) -> list[tuple[Learner, Sequence[Example], float]]:
        """Each learner with what the other one selects for it, and what it loses itself over all examples."""
        losses = [self._processes.gather(found) for found in self._losses(batch, counting)]
        count = selected_count(len(batch.examples), self._settings.share, self._processes.num_processes)
        chosen = [[batch.examples[place] for place in hardest(found, count)] for found in losses]
        means = [float(found.mean()) for found in losses]
        return list(zip(self._learners, reversed(chosen), means, strict=True))

    def _losses(self, batch: StepBatch, counting: Counting) -> list[Tensor]:
        """What each component loses on this process's examples, without dropout."""
        pairwise, found = self._settings.loss == "pairwise", []
        start = self._processes.process_index * (len(batch.examples) // self._processes.num_processes)
        for group in self._groups([micro.to(self._processes.device) for micro in batch.micro_batches]):
            end = start + sum(len(micro.queries.input_ids) for micro in group)
            with evaluating(self.module), counting():
                found.append(
                    [learner.losses(batch.examples[start:end], group, pairwise=pairwise) for learner in self._learners]
                )
            start = end
        return [torch.cat(part) for part in zip(*found, strict=True)]

    def _groups(self, micro_batches: Sequence[MicroBatch]) -> list[Sequence[MicroBatch]]:
        """What is ranked together: a micro-batch, or in scope ``batch`` as much as this process has of one update."""
        if self.stage.scope == "micro_batch":
            return [[micro] for micro in micro_batches]
        micro = self.stage.micro_batch_size or self.stage.batch_size
        size = max(1, self.stage.batch_size // self._processes.num_processes // micro)
        return [micro_batches[start : start + size] for start in range(0, len(micro_batches), size)]

    def _train(
        self, batch: StepBatch, learner: Learner, examples: Sequence[Example], scored: float
    ) -> dict[str, float]:
        logs = [learner.step(part) for part in self._parts(batch, examples)]
        return {**_averaged(logs), "loss_over_all": scored, "selected": float(len(examples))}

    def _train_both(self, batch: StepBatch, counting: Counting) -> list[dict[str, float]]:
        """Without selection: both on everything, in turns, so that documents are counted for both at once."""
        logs: list[list[dict[str, float]]] = [[] for _ in self._learners]
        for part in self._parts(batch, batch.examples):
            with counting():
                for learner, lines in zip(self._learners, logs, strict=True):
                    lines.append(learner.step(part))
        return [_averaged(lines) for lines in logs]

    def _parts(self, batch: StepBatch, examples: Sequence[Example]) -> Iterator[StepBatch]:
        """The updates: ``batch_size`` of ``examples`` each, on the device."""
        size, processes = self.stage.batch_size, self._processes.num_processes
        for start in range(0, len(examples), size):
            some = examples[start : start + size]
            some = some[: len(some) // processes * processes]
            whole = len(some) == len(batch.examples)
            micro_batches = batch.micro_batches if whole else batch.cut(some)
            if some:
                placed = [micro.to(self._processes.device) for micro in micro_batches]
                yield StepBatch(batch.step, some, placed, batch.cut)


def selected_count(examples: int, share: float, processes: int = 1) -> int:
    """How many of ``examples`` are selected: ``share`` of them, rounded down, but as many for each process.

    >>> selected_count(1024, 0.3), selected_count(10, 0.7), selected_count(1, 0.3)
    (307, 7, 1)
    """
    count = int(share * examples + 1e-9)  # 0.29 * 100 is just below 29
    return max(1, count // processes) * processes


def hardest(losses: Tensor, count: int) -> list[int]:
    """The places of the ``count`` largest of ``losses`` in ascending order; of equal ones the first.

    >>> hardest(torch.tensor([0.5, 2.0, 0.1, 2.0]), 2), hardest(torch.tensor([1.0, 1.0, 1.0]), 2)
    ([1, 3], [0, 1])
    """
    places: list[int] = losses.sort(descending=True, stable=True).indices[:count].tolist()
    return sorted(places)


def _averaged(logs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(log[name] for log in logs) / len(logs) for name in logs[0]}
