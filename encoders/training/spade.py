"""SpaDE's training: co-training of two components (§3.3), and corpus-level pruning of frequent terms (§3.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from encoders.models.spade import COMPONENTS, SpaDE
from encoders.training.examples import labels_of
from encoders.training.recipe import CoTraining, Pruning
from encoders.training.session import evaluating

if TYPE_CHECKING:
    from encoders.training.learner import Learner, Update


def cotrain(learner: Learner, step: int, updates: Sequence[Update], settings: CoTraining) -> dict[str, float]:
    """Select from the examples of ``updates`` and update both components; returns the values to log.

    Examples that are hard for one component train the other. A step selects examples for both, then updates both. A
    pruner counts documents while all examples are looked at, not while the selected ones train. Without selection both
    train on everything in turns, so that documents are counted for both at once.
    """
    logs: list[dict[str, float]] = []
    if settings.share < 1:
        losses, examples = _losses(learner, updates), [example for examples, _ in updates for example in examples]
        for name, own, others in zip(COMPONENTS, losses, reversed(losses), strict=True):
            selected = [examples[index] for index in hardest(others, settings.selected)]
            values = _averaged([learner.update(step, update, name) for update in learner.cut(selected)])
            logs.append({**values, "loss_over_all": float(own.mean()), "selected": float(len(selected))})
    else:
        steps = []
        for update in updates:
            with learner.counting():
                steps.append([learner.update(step, update, name) for name in COMPONENTS])
        logs += [_averaged(of_component) for of_component in zip(*steps, strict=True)]
    named = {
        f"{name}_{key}": value for name, values in zip(COMPONENTS, logs, strict=True) for key, value in values.items()
    }
    return {"loss": sum(values["loss"] for values in logs) / len(logs), **named}


def _losses(learner: Learner, updates: Sequence[Update]) -> list[Tensor]:
    """The losses of each component on all examples, without dropout; a query is ranked against its update."""
    losses, session = [list[Tensor]() for _ in COMPONENTS], learner.session
    for examples, micro_batches in updates:
        with evaluating(session.model.weighers), torch.no_grad(), learner.counting():
            for objective, of_component in zip(learner.objectives.values(), losses, strict=True):
                with session.autocast():
                    parts = [objective.outputs(*micro) for micro in micro_batches]
                outputs = {
                    name: torch.cat(session.gather(torch.cat([part[name] for part in parts]))) for name in parts[0]
                }
                values = objective.losses(outputs, labels_of(examples)).values()
                of_component.append(torch.stack(list(values)).sum(dim=0))
    return [torch.cat(of_component) for of_component in losses]


def hardest(losses: Tensor, count: int) -> list[int]:
    """The indices of the ``count`` largest of ``losses`` in ascending order; of equal losses, the first.

    >>> hardest(torch.tensor([0.5, 2.0, 0.1, 2.0]), 2), hardest(torch.tensor([1.0, 1.0, 1.0]), 2)
    ([1, 3], [0, 1])
    """
    indices: list[int] = losses.sort(descending=True, stable=True).indices[:count].tolist()
    return sorted(indices)


def _averaged(logs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: sum(log[name] for log in logs) / len(logs) for name in logs[0]}


class Pruner:
    """Counts documents over the windows of a stage, and prunes the model's terms at the end of each.

    Counted is in how many documents each term has weight in any component. Components that read the same batch of
    documents, one after the other, count it once, with the union of their terms.
    """

    def __init__(self, settings: Pruning, document: SpaDE, total: Callable[[Tensor], Tensor]) -> None:
        """``total`` sums over processes."""
        self._settings, self._document, self._total = settings, document, total
        self._pending: dict[int, tuple[Tensor, Tensor]] = {}  # by the id of input_ids, which the value keeps alive
        self._counts: Tensor | None = None
        self._documents = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count every batch of documents that passes through the components in the ``with`` block."""
        parts: Any = self._document.components.values()
        hooks = [part.unpruned.register_forward_hook(self._add_support) for part in parts]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for _, support in self._pending.values():
                counts = support.sum(dim=0)
                self._counts = counts if self._counts is None else self._counts + counts
                self._documents += len(support)
            self._pending.clear()

    def _add_support(self, _: nn.Module, inputs: tuple[Any, ...], weights: Tensor) -> None:
        ids, support = inputs[0], weights.detach() > 0
        before = self._pending.get(id(ids))
        self._pending[id(ids)] = (ids, support if before is None else before[1] | support)

    def after(self, step: int) -> tuple[dict[str, float], bool]:
        """Prune if a window ends with ``step`` (from 0).

        Returns the values to log, and whether the search for the best weights restarts.
        """
        windows, rest = divmod(step + 1, self._settings.window)
        if rest or self._counts is None:
            return {}, False
        gamma = self._gamma(windows)
        documents = self._total(torch.tensor(self._documents, device=self._counts.device))
        shares = self._total(self._counts).cpu().double() / documents.cpu()  # Apple GPUs have no float64
        self._counts, self._documents = None, 0
        pruned = self._document.pruning.update(shares, gamma, cumulative=self._settings.cumulative)
        return {"gamma": gamma, "pruned_terms": float(pruned)}, windows == 1 or gamma < self._gamma(windows - 1)

    def _gamma(self, windows: int) -> float:
        """Gamma after that many windows, from 1."""
        return self._settings.gamma[:windows][-1]

    def tensors(self) -> dict[str, Tensor]:
        """The counts of the unfinished window, summed over processes; every process has to call it."""
        if self._counts is None:
            return {}
        documents = torch.tensor(self._documents, device=self._counts.device)
        return {"counts": self._total(self._counts.clone()), "documents": self._total(documents)}

    def restore(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Continue with the counts of a state, if there are any; only one of several processes may do so."""
        if tensors:
            self._counts, self._documents = tensors["counts"].to(device), int(tensors["documents"])
