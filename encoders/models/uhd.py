"""UHD-BERT (Jang et al., EMNLP 2021): winner-take-all layers on several BERT layers, each max-pooled to a bucket."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from encoders.backbone import HiddenStates, TowerKind, hidden_states_kind
from encoders.checkpoints import Vocabulary
from encoders.head import Shares, WinnerTakeAll
from encoders.models.architecture import Architecture, Mixture
from encoders.models.uhd_bucket import Bucket, binarized, cut, states_of
from encoders.models.uhd_settings import UHDSettings
from learned_sparse.core import Side

_JOINT = "joint"
_LARGEST_FACTOR = 3  # the paper's best weights 0.66:0:0.33:1:0.33:1 (A.3) are 2:0:1:3:1:3


class UHD(nn.Module):
    """One side: its buckets one after the other (Eq. 7), ``(batch, layers * dimensions)``.

    Each of ``components`` is one bucket, ``(batch, dimensions)``, without its weight.
    """

    def __init__(
        self, settings: UHDSettings, side: Side, towers: Mapping[str, HiddenStates], vocabulary: Vocabulary
    ) -> None:
        """``towers`` may lack those of buckets that the side does without."""
        super().__init__()
        keep, scope = (
            (settings.query_k, settings.query_k_scope)
            if side == "query"
            else (settings.document_k, settings.document_k_scope)
        )
        self._keep_total = keep if scope == "total" else None
        self._keep_each = keep if scope == "bucket" else None
        self._factors = bucket_factors(settings, side)
        self._dimensions, self._binarize = settings.dimensions, settings.binarize
        self._buckets = nn.ModuleDict(
            {
                f"b{layer}": Bucket(settings, layer, towers[tower_name(settings, layer)], vocabulary, keep)
                for layer in settings.layers
                if tower_name(settings, layer) in towers
            }
        )

    @property
    def components(self) -> Mapping[str, nn.Module]:
        """``b<layer>`` to that bucket."""
        return dict(self._buckets.items())

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, layers * dimensions)``.

        Selection comes before the buckets' weights: values lie so close together (Fig. 3) that a weight would decide
        alone which buckets keep anything.
        """
        weights = torch.cat(self._each_bucket(input_ids, attention_mask), dim=1)
        weights = cut(weights, self._keep_total)
        if self._binarize and not self.training:
            weights = binarized(weights)
        if set(self._factors.values()) == {1}:
            return weights
        factors = torch.tensor([*self._factors.values()], dtype=weights.dtype, device=weights.device)
        return (weights.view(len(weights), -1, self._dimensions) * factors[:, None]).flatten(1)

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """Which token gives the weights ``columns`` of one text, by bucket (see ``encoders.head.attribution``)."""
        weights, found = self(input_ids, attention_mask)[0], []
        for place, name in enumerate(self._factors):
            start = place * self._dimensions
            here = columns[(columns >= start) & (columns < start + self._dimensions)]
            if len(here):
                bucket = cast(Bucket, self._buckets[name])
                states = states_of(bucket.tower, input_ids, attention_mask)[bucket.layer]
                winners = bucket.shares(states, input_ids, attention_mask, here - start)
                column = winners.column + start
                found.append(Shares(name, winners.token, column, weights[column]))
        return found

    def _each_bucket(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """A tower of several layers is run once."""
        used = {name: self._buckets[name] for name, factor in self._factors.items() if factor}
        states: dict[int, dict[int, Tensor]] = {}
        pooled: dict[str, Tensor] = {}
        for name, bucket in used.items():
            if not isinstance(bucket, Bucket):
                raise TypeError(f"{type(bucket).__name__} is no bucket")
            tower = bucket.tower
            if id(tower) not in states:
                states[id(tower)] = states_of(tower, input_ids, attention_mask)
            weights = bucket.pooled(states[id(tower)][bucket.layer], input_ids, attention_mask)
            pooled[name] = cut(weights, self._keep_each)
        empty = next(iter(pooled.values())).new_zeros(1).expand(len(input_ids), self._dimensions)
        return [pooled.get(name, empty) for name in self._factors]


def bucket_factors(settings: UHDSettings, side: Side) -> dict[str, int]:
    """``b<layer>`` to the factor of that bucket; 1 in documents, so that an index fits all weights."""
    factors = settings.bucket_weights if side == "query" and settings.bucket_weights else (1,) * len(settings.layers)
    return {f"b{layer}": factor for layer, factor in zip(settings.layers, factors, strict=True)}


def tower_name(settings: UHDSettings, layer: int) -> str:
    """The tower that the bucket of ``layer`` reads."""
    return _JOINT if settings.encoders == "joint" else f"bucket-{layer}"


def _towers(settings: UHDSettings, side: Side) -> tuple[str, ...]:
    factors = bucket_factors(settings, side)
    used = (layer for layer in settings.layers if factors[f"b{layer}"])
    return tuple(dict.fromkeys(tower_name(settings, layer) for layer in used))


def _tower(settings: UHDSettings, name: str) -> TowerKind:
    layers = settings.layers if name == _JOINT else (int(name.removeprefix("bucket-")),)

    def kind(*, initialise: bool) -> TowerKind:
        def make_heads(hidden: int) -> nn.Module:
            return nn.ModuleDict(
                {
                    str(layer): WinnerTakeAll(
                        hidden, settings.dimensions, settings.weight_sparsity, initialise=initialise
                    )
                    for layer in layers
                }
            )

        return hidden_states_kind(make_heads, layers)

    return TowerKind(load=kind(initialise=False).load, from_backbone=kind(initialise=True).from_backbone)


def _terms(settings: UHDSettings, _: Vocabulary) -> Sequence[str]:
    return [f"b{layer}d{dimension}" for layer in settings.layers for dimension in range(settings.dimensions)]


def _mixtures(settings: UHDSettings) -> Sequence[Mixture]:
    """All whole factors from 0 to 3, but for multiples of another mixture's."""
    names = [f"b{layer}" for layer in settings.layers]
    if len(names) == 1:
        return ()
    return [
        Mixture({"bucket_weights": factors}, {name: float(factor) for name, factor in zip(names, factors, strict=True)})
        for factors in itertools.product(range(_LARGEST_FACTOR + 1), repeat=len(names))
        if math.gcd(*factors) == 1
    ]


_QUERY_ONLY = frozenset({"query_k", "query_k_scope", "bucket_weights"})

UHD_BERT = Architecture(
    settings=UHDSettings,
    towers=_towers,
    weigher=UHD,
    scale=lambda settings, _: 1.0 if settings.binarize else None,
    tower=_tower,
    terms=_terms,
    mixtures=_mixtures,
    changeable=_QUERY_ONLY | {"k", "layers", "normalize", "document_k", "document_k_scope", "binarize"},
    query_only_settings=_QUERY_ONLY,
)
