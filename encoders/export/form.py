"""What other tools know of SPLADE: a pooled masked-LM for documents, and one of three kinds of queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from encoders.backbone.towers import LanguageModel
from encoders.encoding.model import LoadedModel
from learned_sparse.core.errors import LearnedSparseError

_NEVER_POSITIVE = -1e4
"""Output bias of a blocked term; fp16 can hold it."""
_ACTIVATION: dict[str, Literal["relu", "log1p_relu"]] = {"log": "relu", "log-log": "log1p_relu"}


@dataclass(frozen=True, kw_only=True)
class Form:
    """A model that is SPLADE to other tools."""

    pooling: Literal["sum", "max"]
    activation: Literal["relu", "log1p_relu"]
    """Name in SpladePooling: log(1 + ReLU(x)), or log(1 + log(1 + ReLU(x)))."""
    document: Any
    """Tower of documents."""
    query: Any | None
    """Tower of queries: that of documents, another one, or none."""
    table: Tensor | None
    """Weight of each term ``(vocabulary,)`` of queries without a network, 0 for terms that are never in the bag."""
    counts: bool
    """Whether such queries count repeated terms."""
    blocked: Tensor
    """Ids of dimensions that are always 0."""

    @property
    def symmetric(self) -> bool:
        """Whether queries and documents are encoded alike."""
        return self.query is self.document


def form_of(model: LoadedModel) -> Form:
    """The form of ``model``; raise with the reason if it has none."""
    settings = model.settings
    if model.architecture != "splade":
        raise LearnedSparseError(
            f"{model.architecture}: other tools have no such model; they know SPLADE, with or without a network for "
            "queries, and Pyserini knows uniCOIL. Export its vectors instead"
        )
    for name, value in (("expansion", "full"), ("pool_special_tokens", True)):
        if getattr(settings, name) != value:
            raise LearnedSparseError(f"{name}: {getattr(settings, name)}: other tools know {value} only")
    if settings.saturation not in _ACTIVATION:
        raise LearnedSparseError(f"saturation: {settings.saturation}: other tools take the logarithm of all weights")
    for tower in (tower for tower in model.towers.values() if isinstance(tower, LanguageModel)):
        if tower.has_added_bias:
            raise LearnedSparseError("idf_bias gave this backbone an output bias, which other tools do not read")
        if getattr(tower.model.config, "echo_input", False):
            raise LearnedSparseError("attention: echo: other tools read a text once")
    bag = settings.query == "bag-of-words"
    document: Any = model.weighers.document
    return Form(
        pooling=settings.pooling,
        activation=_ACTIVATION[settings.saturation],
        document=model.towers["document"],
        query=None if bag else model.towers["query" if settings.query == "separate" else "document"],
        table=_table(model) if bag else None,
        counts=bag and settings.query_weighting == "tf",
        blocked=(~document.unblocked).nonzero().flatten(),
    )


@contextmanager
def with_blocked_terms(tower: Any, blocked: Tensor) -> Iterator[None]:
    """Inside the block, the output biases of ``blocked`` terms keep their weights at 0 in any tool."""
    if not len(blocked):
        yield
        return
    bias: Tensor | None = tower.decoder.bias
    if bias is None:
        raise LearnedSparseError("block_special_terms: this backbone has no output bias that could block a term")
    with torch.no_grad():
        before = bias[blocked].clone()
        bias[blocked] = _NEVER_POSITIVE
        try:
            yield
        finally:
            bias[blocked] = before


def _table(model: LoadedModel) -> Tensor:
    bag: Any = model.weighers.query
    weights = torch.ones(model.towers["document"].vocabulary_size) if bag.table is None else bag.table()
    excluded = torch.tensor(bag.excluded, dtype=torch.long)
    return weights.detach().float().index_fill(0, excluded, 0.0)
