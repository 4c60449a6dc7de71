"""The recipe of a cross-encoder: the data and negatives of other recipes, and few settings of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from encoders.training import Changes, Negatives, Source, recipe_values
from learned_sparse.collections.documents import OnBadLine
from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.core.settings import parse

KIND = "cross-encoder"


@dataclass(frozen=True, kw_only=True)
class CrossEncoderRecipe:
    """A cross-encoder from backbone to folder: binary cross-entropy over pairs of a query and a document."""

    kind: Literal["cross-encoder"]
    model: str  # its name in commands and file names
    backbone: str = "bert-base-uncased"
    revision: str | None = None  # of a backbone on the Hub
    num_hidden_layers: int | None = None  # None: all layers of the backbone
    seed: int = 0
    max_length: int = 256  # word pieces of a pair
    precision: Literal["fp32", "bf16"] = "fp32"
    data: tuple[Source, ...]
    on_bad_line: OnBadLine = "error"
    negatives: Negatives = field(default_factory=lambda: Negatives(per_query=4))
    steps: int
    batch_size: int  # queries of a step, each with its positive and its negatives
    learning_rate: float = 2e-5
    warm_up_steps: int = 0
    weight_decay: float = 0.01
    log_every: int = 10

    def __post_init__(self) -> None:
        if not self.data or self.steps < 1 or self.batch_size < 1:
            raise LearnedSparseError("'data' needs an entry, 'steps' and 'batch_size' are at least 1")
        if self.negatives.count < 1:
            raise LearnedSparseError("negatives: a cross-encoder needs at least one for each query")
        for source in self.negatives.parts:
            if source.kind not in ("given", "bm25", "random"):
                raise LearnedSparseError(
                    f"negatives: kind: {source.kind}: a cross-encoder does not search; use given, bm25 or random"
                )


def load_cross_encoder_recipe(
    name: str | Path, *, changes: Changes = (), data: tuple[str, ...] | list[str] = ()
) -> CrossEncoderRecipe | None:
    """The recipe ``name`` as ``load_recipe`` completes it; None if it is of another kind."""
    values: Mapping[str, Any] = recipe_values(name, changes=changes, data=data)
    return parse(CrossEncoderRecipe, values, str(name)) if values.get("kind") == KIND else None
