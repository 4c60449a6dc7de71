"""Corpus-level pruning in training (SpaDE §3.4): which terms have weight in too many documents, window by window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from encoders.training.objective.parts import components_of, trained_components
from encoders.training.recipe import Pruning, Stage
from learned_sparse.core import LearnedSparseError, atomic_write

_FILE = "pruning.safetensors"


class Prunable(Protocol):
    """What a document side offers whose terms can be pruned."""

    def set_frequencies(self, shares: Tensor, gamma: float) -> None:
        """Prune the terms whose share of documents is larger than ``gamma``."""


class Supports:
    """In how many documents each term has weight before pruning, in any of the components that are counted.

    Components that read the same batch of documents, one after the other, count it once: for the union of their terms.
    """

    def __init__(self, components: dict[str, nn.Module]) -> None:
        """``components``: the modules that give weights before pruning."""
        self._components = components
        self._waiting: dict[int, tuple[Tensor, Tensor]] = {}  # by the id of the batch, which is kept alive
        self.counts: Tensor | None = None
        self.documents = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count every batch of documents that passes through in the ``with`` block."""
        hooks = [part.register_forward_hook(self._seen) for part in self._components.values()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for _, support in self._waiting.values():
                self._add(support)
            self._waiting.clear()

    def reset(self) -> None:
        """Begin at nothing."""
        self.counts, self.documents = None, 0

    def _seen(self, _: nn.Module, inputs: tuple[Any, ...], weights: Tensor) -> None:
        ids, support = inputs[0], weights.detach() > 0
        before = self._waiting.get(id(ids))
        self._waiting[id(ids)] = (ids, support if before is None else before[1] | support)

    def _add(self, support: Tensor) -> None:
        found = support.sum(dim=0)
        self.counts = found if self.counts is None else self.counts + found
        self.documents += len(support)


class Pruner:
    """Counts documents over the windows of a stage, and at the end of each tells the model what to prune."""

    def __init__(self, stage: Stage, document: Any, reduce: Callable[[Tensor], Tensor]) -> None:
        """``document``: the document side of the model. ``reduce`` sums over processes."""
        if stage.pruning is None:
            raise ValueError("a stage without pruning")
        if not hasattr(document, "set_frequencies"):
            raise LearnedSparseError(f"stage {stage.name}: pruning: this architecture cannot prune terms; SpaDE can")
        self._settings, self._reduce = stage.pruning, reduce
        self._document: Prunable = document
        self._supports = Supports(_counted(stage, stage.pruning, document))

    @contextmanager
    def counting(self, step: int) -> Iterator[None]:
        """Count the documents of ``step`` (from 0) that pass through in the ``with`` block, if counting has begun."""
        if step < self._settings.begin:
            yield
        else:
            with self._supports.counting():
                yield

    def after(self, step: int) -> tuple[dict[str, float], bool]:
        """Prune, if a window ends with ``step`` (from 0): what to log, and whether the search for the best restarts."""
        windows, rest = divmod(step + 1 - self._settings.begin, self._settings.window)
        if windows < 1 or rest or self._supports.counts is None:
            return {}, False
        gamma = self._gamma(windows)
        falls = windows == 1 or gamma < self._gamma(windows - 1)
        shares = self._shares()
        self._document.set_frequencies(shares, gamma)
        self._supports.reset()
        return {"gamma": gamma, "pruned_terms": float((shares > gamma).sum())}, falls and self._settings.restart

    def _gamma(self, windows: int) -> float:
        """In force after so many windows, from 1."""
        schedule = self._settings.schedule
        return schedule[windows - 1] if windows <= len(schedule) else self._settings.gamma

    def tensors(self) -> dict[str, Tensor]:
        """The counts of a window that has not ended, over all processes (which all have to ask)."""
        if self._supports.counts is None:
            return {}
        documents = torch.tensor(self._supports.documents, device=self._supports.counts.device)
        return {"counts": self._reduce(self._supports.counts.clone()), "documents": self._reduce(documents)}

    def restore(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Go on with saved counts; of several processes, one gets them all."""
        if tensors:
            self._supports.counts = tensors["counts"].to(device)
            self._supports.documents = int(tensors["documents"])

    def _shares(self) -> Tensor:
        counts = self._supports.counts
        if counts is None:
            raise ValueError("nothing was counted")
        documents = self._reduce(torch.tensor(self._supports.documents, device=counts.device))
        return self._reduce(counts).double() / documents


def _counted(stage: Stage, settings: Pruning, document: nn.Module) -> dict[str, nn.Module]:
    known = components_of(document)
    if settings.counted != "document" and settings.counted not in known:
        raise LearnedSparseError(
            f"stage {stage.name}: pruning: counted: {settings.counted!r} is neither 'document' nor one of "
            f"the components {', '.join(known)}"
        )
    trained = trained_components(stage)
    if settings.counted != "document" and None not in trained and settings.counted not in trained:
        raise LearnedSparseError(f"stage {stage.name}: pruning: counted: {settings.counted!r} is not trained here")
    names = list(known) if settings.counted == "document" else [settings.counted]
    return {name: getattr(known[name], "unpruned", known[name]) for name in names}


def save_pruning(state: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write ``Pruner.tensors()`` into a state folder, if there are any."""
    if tensors:
        with atomic_write(state / _FILE) as file:
            file.write(save({name: tensor.cpu() for name, tensor in tensors.items()}))


def load_pruning(state: Path) -> dict[str, Tensor]:
    """What ``save_pruning`` wrote."""
    path = state / _FILE
    return load_file(path) if path.exists() else {}
