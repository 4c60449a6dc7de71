"""A model in training on this process's device, with accelerate between the processes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import accelerate
import torch
from torch import Tensor

from encoders.encoding import LoadedModel, new_model
from encoders.training import state
from encoders.training.cotraining import CoLearner
from encoders.training.learner import Learner
from encoders.training.objective import Pruner, load_pruning, part_of
from encoders.training.recipe import Recipe, Stage
from encoders.training.validation import Vectors, encode
from learned_sparse.core import LearnedSparseError

T = TypeVar("T")
AnyLearner = Learner | CoLearner


class Session:
    """The processes of a run and the model each of them holds; one process is the usual case."""

    def __init__(self, recipe: Recipe, device: str | None) -> None:
        self.processes = accelerate.Accelerator(cpu=device == "cpu")
        own: torch.device = self.processes.device  # of several processes, each has been given its device
        self._device = own if device is None or self.processes.num_processes > 1 else torch.device(device)
        self._recipe = recipe
        self.model = _model(recipe)
        self.model.weighers.to(self.device)

    def learner(self, stage: Stage) -> AnyLearner:
        """The model under ``stage``, with a fresh optimizer."""
        kind = Learner if stage.cotraining is None else CoLearner
        return kind(
            stage,
            self.model.weighers,
            self.model.towers,
            special_ids=self.model.tokenizer.all_special_ids,
            processes=self,
            autocast=self.autocast,
        )

    def pruner(self, stage: Stage) -> Pruner | None:
        """Who prunes terms in ``stage``, if it says so."""
        if stage.pruning is None:
            return None
        return Pruner(stage, self.model.weighers.document, lambda t: self.reduce(t) if self.num_processes > 1 else t)

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return self._device

    @property
    def num_processes(self) -> int:
        """How many processes train together."""
        return int(self.processes.num_processes)

    @property
    def process_index(self) -> int:
        """Which of them this is, from 0."""
        return int(self.processes.process_index)

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of all processes, in their order."""
        found: Tensor = self.processes.gather(tensor) if self.num_processes > 1 else tensor
        return found

    def reduce(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        """The sum or mean over the processes."""
        found: Tensor = self.processes.reduce(tensor, reduction=reduction)
        return found

    def autocast(self) -> AbstractContextManager[None]:
        """bfloat16 for the matrix products, if the recipe asks for it; the weights stay float32."""
        if self._recipe.precision == "bf16":
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()

    def micro_batch_size(self, stage: Stage) -> int:
        """Queries in one forward pass of one process."""
        share, rest = divmod(stage.batch_size, self.num_processes)
        micro = stage.micro_batch_size or share
        if rest or share % micro:
            raise LearnedSparseError(
                f"stage {stage.name}: batch_size {stage.batch_size} is not a multiple of "
                f"{self.num_processes} processes times micro_batch_size {micro}"
            )
        if stage.cotraining is not None and stage.cotraining.select_from % self.num_processes:
            raise LearnedSparseError(
                f"stage {stage.name}: select_from {stage.cotraining.select_from} is not a multiple of "
                f"{self.num_processes} processes"
            )
        return micro

    def encode(self, side: str, texts: list[str], component: str | None = None) -> Vectors:
        """Weights of ``texts`` by the model as it is now, or by one component of it."""
        length, part = self._recipe.max_length, part_of(self.model.weighers, component)
        return encode(
            part.query if side == "query" else part.document,
            self.model.tokenizer,
            texts,
            max_length=length.query if side == "query" else length.document,
            autocast=self.autocast,
            device=self.device,
        )

    def restore(self, folder: Path, learner: AnyLearner, pruner: Pruner | None) -> None:
        """Put back weights, optimizer, random numbers and counts of a saved state."""
        if pruner is not None and self.processes.is_main_process:
            pruner.restore(load_pruning(folder), self.device)
        state.load_weights(folder / "weights.safetensors", self.model.weighers)
        state.load_optimizer(folder / "optimizer.safetensors", self.model.weighers, learner.optimizer)
        rows = state.read_random_states(folder / "random.safetensors")
        if len(rows) == self.num_processes:
            state.set_random_state(rows[self.process_index], self.device)
        # otherwise the number of processes has changed: the run goes on, but no longer as it would have

    def random_states(self) -> Tensor:
        """The random numbers' state of every process, one row each."""
        own = state.random_state(self.device).unsqueeze(0)
        return self.gather(own.to(self.device)).cpu()

    def if_main(self, action: Callable[[], None]) -> None:
        """Do ``action`` in the main process, while the others wait."""
        if self.processes.is_main_process:
            action()
        self.processes.wait_for_everyone()

    def on_main(self, compute: Callable[[], float]) -> float:
        """What ``compute`` gives in the main process, known to all."""
        value = torch.tensor([compute() if self.processes.is_main_process else 0.0], dtype=torch.float64, device="cpu")
        return float(self.reduce(value.to(self.device))) if self.num_processes > 1 else float(value)


def _model(recipe: Recipe) -> LoadedModel:
    make: Callable[..., Any] = functools.partial(
        new_model, recipe.architecture, recipe.settings, recipe.backbone, recipe.num_hidden_layers, recipe.seed
    )
    bias = {} if recipe.output_bias is None else {"output_bias": recipe.output_bias}
    lengths = {"query": recipe.max_length.query, "document": recipe.max_length.document}
    model: LoadedModel = make(revision=recipe.revision, max_length=lengths, **bias)
    return model
