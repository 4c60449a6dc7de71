"""UHD-BERT (Jang et al., EMNLP 2021): winner-take-all layers on several BERT layers, each max-pooled to a bucket."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from encoders.backbone.hidden_states import HiddenStates, HiddenStatesKind
from encoders.checkpoints.tokenizer import Vocabulary
from encoders.head.shares import Shares
from encoders.head.token_top_k import WinnerTakeAll, keep_largest, largest_shares, max_pool_entries
from encoders.models.architecture import Architecture, PooledTower
from encoders.models.objectives import Mixture
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError

Scope = Literal["total", "bucket"]
_MAX_FACTOR = 3  # the paper's best bucket weights 0.66:0:0.33:1:0.33:1 (A.3) are 2:0:1:3:1:3


@dataclass(frozen=True, kw_only=True)
class UHDSettings(Architecture):
    """Defaults are the paper's for MS MARCO (section 4.2, A.1)."""

    dimensions: int = 81920
    """``n``: of each bucket."""
    k: int = 80
    """Winners of each token, in each bucket."""
    layers: tuple[int, ...] = (2, 4, 6, 8, 10, 12)
    """The layers that have a bucket, counted from 1, lowest first."""
    encoders: Literal["separate", "joint"] = "separate"
    """``separate``: a backbone for each bucket, cut above its layer; ``joint``: one backbone for all (A.3)."""
    normalize: Literal["bucket", "token", "both", "none"] = "token"
    """What is scaled to length 1: the winners of each token before pooling, or the bucket after it. The text of section
    3.3 has the second, the published values are those of the first: their mean 0.11169 and standard deviation 0.00182
    (Fig. 3) are near 1 / sqrt(80) = 0.1118 for k = 80, where a pooled bucket of about 1,200 dimensions (Table 4) would
    have 0.029; and scores of buckets of length 1, at most 1, could not satisfy the margin of 1 (Eq. 8)."""
    weight_sparsity: float = 0.7
    """Share of a layer's outputs that a dimension does not read."""
    pool_special_tokens: bool = True
    """Whether the positions of [CLS] and [SEP] are pooled too. The paper is silent."""
    query_k: int | None = None
    """Number of dimensions that a query keeps after pooling (Table 4: 100 is best); ``None``: all."""
    query_k_scope: Scope = "total"
    """``query_k`` of the whole query, or of each bucket. The paper's "original" 1,200 fits the whole."""
    document_k: int | None = None
    """As ``query_k``, for documents; not in the paper."""
    document_k_scope: Scope = "total"
    bucket_weights: tuple[int, ...] | None = None
    """Factors of the buckets' scores, on the query side (section 4.5); 0: the query has no such bucket; ``None``: 1."""
    binarize: bool = False
    """Weights become 1 (section 3.7). Training works on the real-valued ones."""

    query_only_settings = frozenset({"query_k", "query_k_scope", "bucket_weights"})
    changeable = query_only_settings | {"k", "layers", "normalize", "document_k", "document_k_scope", "binarize"}

    def __post_init__(self) -> None:
        """Refuse values that no model can have."""
        if not self.layers or list(self.layers) != sorted(set(self.layers)) or self.layers[0] < 0:
            raise LearnedSparseError(f"UHD-BERT: layers {list(self.layers)}; give different ones, lowest first")
        if not 0 < self.k <= self.dimensions:
            raise LearnedSparseError(f"UHD-BERT: k {self.k}; give 1 to {self.dimensions}, the dimensions of a bucket")
        for name, count in (("query_k", self.query_k), ("document_k", self.document_k)):
            if count is not None and count < 1:
                raise LearnedSparseError(f"UHD-BERT: {name} {count}; give at least 1, or null to keep all")
        weights = self.bucket_weights
        if weights is not None and (len(weights) != len(self.layers) or min(weights) < 0 or not any(weights)):
            raise LearnedSparseError(
                f"UHD-BERT: bucket_weights {list(weights)}; give a whole number from 0 for each of the layers "
                f"{list(self.layers)}, not all of them 0"
            )

    def tower_of(self, layer: int) -> str:
        """The tower that the bucket of ``layer`` reads."""
        return "joint" if self.encoders == "joint" else f"bucket-{layer}"

    def factors(self, side: Side) -> dict[str, int]:
        """``b<layer>`` to the factor of that bucket; 1 for documents, so that an index fits all bucket weights."""
        factors = self.bucket_weights if side == "query" and self.bucket_weights else (1,) * len(self.layers)
        return {f"b{layer}": factor for layer, factor in zip(self.layers, factors, strict=True)}

    def networks(self, side: Side) -> Mapping[str, HiddenStatesKind]:
        """The towers of the buckets that the side has, with a winner-take-all layer for each of their buckets."""
        used = [layer for layer, factor in zip(self.layers, self.factors(side).values(), strict=True) if factor]
        layers_of = {layer: self.layers if self.encoders == "joint" else (layer,) for layer in used}

        def heads(layers: Sequence[int], hidden: int) -> nn.Module:
            return nn.ModuleDict(
                {str(each): WinnerTakeAll(hidden, self.dimensions, self.weight_sparsity) for each in layers}
            )

        return {self.tower_of(layer): HiddenStatesKind(partial(heads, read), read) for layer, read in layers_of.items()}

    def network_side(self, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
        """``UHD``."""
        return UHD(self, side, towers, vocabulary)

    @property
    def network_scale(self) -> float | None:
        """Binary weights are integers."""
        return 1.0 if self.binarize else None

    @property
    def terms(self) -> Sequence[str]:  # type: ignore[override]
        """``b12d61183`` is dimension 61183 of layer 12."""
        return [f"b{layer}d{dimension}" for layer in self.layers for dimension in range(self.dimensions)]

    def mixtures(self) -> Sequence[Mixture]:
        """All whole factors from 0 to 3, except multiples of another mixture."""
        names = [f"b{layer}" for layer in self.layers]
        if len(names) == 1:
            return ()
        return [
            ({"bucket_weights": factors}, {name: float(factor) for name, factor in zip(names, factors, strict=True)})
            for factors in itertools.product(range(_MAX_FACTOR + 1), repeat=len(names))
            if math.gcd(*factors) == 1
        ]


class Bucket(PooledTower):
    """The bucket of one layer (Eq. 4 and 6); called alone, as a component, it is cut and binarised like its side."""

    tower: HiddenStates

    def __init__(
        self, settings: UHDSettings, layer: int, tower: HiddenStates, vocabulary: Vocabulary, keep: int | None
    ) -> None:
        super().__init__(tower, vocabulary, pool_special_tokens=settings.pool_special_tokens)
        self.layer = layer
        self._k, self._dimensions, self._normalize = settings.k, settings.dimensions, settings.normalize
        self._keep, self._binarize = keep, settings.binarize

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, dimensions of one bucket)``."""
        states = self.tower(input_ids, attention_mask)[self.tower.layers.index(self.layer)]
        weights = _cut(self.pooled(states, input_ids, attention_mask), self._keep)
        return (weights > 0).to(weights.dtype) if self._binarize and not self.training else weights

    def pooled(self, states: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The bucket ``(batch, dimensions)`` of the ``states`` ``(batch, tokens, hidden)`` of its layer."""
        mask = attention_mask.bool() & self.pooled_tokens[input_ids]
        texts = torch.arange(len(mask), device=mask.device)[:, None].expand_as(mask)[mask]
        bucket = max_pool_entries(*self._winners(states[mask]), texts, len(mask), self._dimensions)
        return functional.normalize(bucket, dim=1) if self._normalize in ("bucket", "both") else bucket

    def shares(self, states: Tensor, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> Shares:
        """The token that wins each of the dimensions ``columns`` of one text, and its value before normalisation."""
        mask = attention_mask.bool() & self.pooled_tokens[input_ids]
        return largest_shares(*self._winners(states[mask]), mask.nonzero()[:, 1], columns)

    def _winners(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Values and dimensions ``(r, k)`` of the winners of each of the ``rows`` ``(r, hidden)``."""
        layers = cast(nn.ModuleDict, self.tower.head)
        values, columns = layers[str(self.layer)](rows, self._k)
        return functional.normalize(values, dim=1) if self._normalize in ("token", "both") else values, columns


class UHD(nn.Module):
    """One side: its buckets one after the other (Eq. 7), ``(batch, layers * dimensions)``."""

    def __init__(
        self, settings: UHDSettings, side: Side, towers: Mapping[str, HiddenStates], vocabulary: Vocabulary
    ) -> None:
        """``towers`` may lack those of buckets that the side does not have."""
        super().__init__()
        keep, scope = getattr(settings, f"{side}_k"), getattr(settings, f"{side}_k_scope")
        self._keep_total = keep if scope == "total" else None
        self._keep_each = keep if scope == "bucket" else None
        self._factors = settings.factors(side)
        self._dimensions, self._binarize = settings.dimensions, settings.binarize
        self.components: Any = nn.ModuleDict(
            {
                f"b{layer}": Bucket(settings, layer, towers[settings.tower_of(layer)], vocabulary, keep)
                for layer in settings.layers
                if settings.tower_of(layer) in towers
            }
        )
        """``b<layer>`` to that bucket, ``(batch, dimensions)`` without its factor."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, layers * dimensions)``.

        Dimensions are selected before the buckets' factors are applied: values lie so close together (Fig. 3) that
        otherwise the factors would decide which buckets keep anything.
        """
        weights = _cut(torch.cat(self._each_bucket(input_ids, attention_mask), dim=1), self._keep_total)
        if self._binarize and not self.training:
            weights = (weights > 0).to(weights.dtype)  # without gradient
        if set(self._factors.values()) == {1}:
            return weights
        factors = torch.tensor([*self._factors.values()], dtype=weights.dtype, device=weights.device)
        return (weights.view(len(weights), -1, self._dimensions) * factors[:, None]).flatten(1)

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """The token that gives each of the weights ``columns`` of one text, by bucket."""
        weights, shares = self(input_ids, attention_mask)[0], []
        for number, name in enumerate(self._factors):
            start = number * self._dimensions
            bucket_columns = columns[(columns >= start) & (columns < start + self._dimensions)]
            if len(bucket_columns):
                bucket = self.components[name]
                states = bucket.tower(input_ids, attention_mask)[bucket.tower.layers.index(bucket.layer)]
                winners = bucket.shares(states, input_ids, attention_mask, bucket_columns - start)
                column = winners.column + start
                shares.append(Shares(name, winners.token, column, weights[column]))
        return shares

    def _each_bucket(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """The buckets in order, ``(batch, dimensions)``; a tower of several layers runs once."""
        states: dict[int, tuple[Tensor, ...]] = {}
        pooled: dict[str, Tensor] = {}
        for name in (name for name, factor in self._factors.items() if factor):
            bucket = self.components[name]
            tower = bucket.tower
            if id(tower) not in states:
                states[id(tower)] = tower(input_ids, attention_mask)
            of_layer = states[id(tower)][tower.layers.index(bucket.layer)]
            pooled[name] = _cut(bucket.pooled(of_layer, input_ids, attention_mask), self._keep_each)
        empty = next(iter(pooled.values())).new_zeros(1).expand(len(input_ids), self._dimensions)
        return [pooled.get(name, empty) for name in self._factors]


def _cut(weights: Tensor, keep: int | None) -> Tensor:
    """``weights`` ``(batch, n)`` with only the ``keep`` largest of each row."""
    return weights if keep is None else keep_largest(weights, min(keep, weights.shape[1]))
