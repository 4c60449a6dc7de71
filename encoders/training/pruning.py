"""Corpus-level pruning (SpaDE §3.4): counts the documents in which each term has weight, and prunes by window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from encoders.models.architecture import Prunable
from encoders.training.options import spade_options
from encoders.training.recipe import Stage
from learned_sparse.core.errors import LearnedSparseError


class DocumentFrequencies:
    """Number of documents in which each term has weight in any of ``components``, and the number of documents.

    Components that read the same batch of documents, one after the other, count it once, with the union of their terms.
    """

    def __init__(self, components: Mapping[str, nn.Module]) -> None:
        self._components = components
        self._pending: dict[int, tuple[Tensor, Tensor]] = {}  # by the id of input_ids, which the value keeps alive
        self.counts: Tensor | None = None
        self.documents = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count every batch of documents that passes through the components in the ``with`` block."""
        hooks = [part.register_forward_hook(self._add_support) for part in self._components.values()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for _, support in self._pending.values():
                counts = support.sum(dim=0)
                self.counts = counts if self.counts is None else self.counts + counts
                self.documents += len(support)
            self._pending.clear()

    def _add_support(self, _: nn.Module, inputs: tuple[Any, ...], weights: Tensor) -> None:
        ids, support = inputs[0], weights.detach() > 0
        before = self._pending.get(id(ids))
        self._pending[id(ids)] = (ids, support if before is None else before[1] | support)


class Pruner:
    """Counts documents over the windows of a stage, and prunes the model's terms at the end of each."""

    def __init__(self, stage: Stage, document: Prunable | None, reduce: Callable[[Tensor], Tensor]) -> None:
        """``document``: the document side; None if its architecture cannot prune. ``reduce`` sums over processes."""
        pruning = spade_options(stage).pruning
        if pruning is None:
            raise ValueError("a stage without pruning")
        if document is None:
            raise LearnedSparseError(f"stage {stage.name}: pruning: this architecture cannot prune terms; SpaDE can")
        self._settings, self._document, self._reduce = pruning, document, reduce
        self._frequencies = DocumentFrequencies(document.unpruned)

    @contextmanager
    def counting(self, step: int) -> Iterator[None]:
        """Count the documents of ``step`` (from 0) that pass through in the ``with`` block, if counting has begun."""
        if step < self._settings.begin:
            yield
        else:
            with self._frequencies.counting():
                yield

    def after(self, step: int) -> tuple[dict[str, float], bool]:
        """Prune if a window ends with ``step`` (from 0).

        Returns the values to log, and whether the search for the best weights restarts.
        """
        windows, rest = divmod(step + 1 - self._settings.begin, self._settings.window)
        counts = self._frequencies.counts
        if windows < 1 or rest or counts is None:
            return {}, False
        gamma = self._gamma(windows)
        restarts = windows == 1 or gamma < self._gamma(windows - 1)
        documents = self._reduce(torch.tensor(self._frequencies.documents, device=counts.device))
        shares = self._reduce(counts).cpu().double() / documents.cpu()  # Apple GPUs have no float64
        self._frequencies.counts, self._frequencies.documents = None, 0
        if self._settings.cumulative and windows > len(self._settings.schedule):
            return {}, False
        pruned = self._document.set_frequencies(shares, gamma, cumulative=self._settings.cumulative)
        return {"gamma": gamma, "pruned_terms": float(pruned)}, restarts

    def _gamma(self, windows: int) -> float:
        """Gamma after that many windows, from 1."""
        schedule = self._settings.schedule
        return schedule[windows - 1] if windows <= len(schedule) else self._settings.gamma

    def tensors(self) -> dict[str, Tensor]:
        """The counts of the unfinished window, summed over processes; every process has to call it."""
        counts = self._frequencies.counts
        if counts is None:
            return {}
        documents = torch.tensor(self._frequencies.documents, device=counts.device)
        return {"counts": self._reduce(counts.clone()), "documents": self._reduce(documents)}

    def restore(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Continue with the counts of a state, if there are any; only one of several processes may do so."""
        if tensors:
            self._frequencies.counts = tensors["counts"].to(device)
            self._frequencies.documents = int(tensors["documents"])
