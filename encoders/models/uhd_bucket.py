"""One bucket of UHD-BERT: the winners of every token of a text on one layer, max-pooled."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from encoders.backbone import HiddenStates
from encoders.checkpoints import Vocabulary
from encoders.head import Shares, keep_largest, largest_shares, max_pool_entries
from encoders.models.bag_of_words import counts
from encoders.models.uhd_settings import UHDSettings


class Bucket(nn.Module):
    """One layer's bucket (Eq. 4 and 6), and as a part searched alone: cut and binarised as its side is."""

    def __init__(
        self, settings: UHDSettings, layer: int, tower: HiddenStates, vocabulary: Vocabulary, keep: int | None
    ) -> None:
        super().__init__()
        self.tower, self.layer = tower, layer
        self._k, self._dimensions, self._normalize = settings.k, settings.dimensions, settings.normalize
        self._keep, self._binarize = keep, settings.binarize
        self._pooled_tokens: Tensor
        self.register_buffer(
            "_pooled_tokens", counts(vocabulary, "all" if settings.pool_special_tokens else "unknown"), persistent=False
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, dimensions of one bucket)``."""
        states = states_of(self.tower, input_ids, attention_mask)[self.layer]
        weights = cut(self.pooled(states, input_ids, attention_mask), self._keep)
        return binarized(weights) if self._binarize and not self.training else weights

    def pooled(self, states: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The bucket ``(batch, dimensions)`` of the layer's ``states`` ``(batch, tokens, hidden)``."""
        mask = attention_mask.bool() & self._pooled_tokens[input_ids]
        texts = torch.arange(len(mask), device=mask.device)[:, None].expand_as(mask)[mask]
        bucket = max_pool_entries(*self._winners(states[mask]), texts, len(mask), self._dimensions)
        return functional.normalize(bucket, dim=1) if self._normalize in ("bucket", "both") else bucket

    def shares(self, states: Tensor, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> Shares:
        """Which token wins each of the dimensions ``columns`` of one text, with its value before normalisation."""
        mask = attention_mask.bool() & self._pooled_tokens[input_ids]
        return largest_shares(*self._winners(states[mask]), mask.nonzero()[:, 1], columns)

    def _winners(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Values and dimensions ``(r, k)`` of the winners of each of the ``rows`` ``(r, hidden)``."""
        values, columns = self._winner_take_all()(rows, self._k)
        return functional.normalize(values, dim=1) if self._normalize in ("token", "both") else values, columns

    def _winner_take_all(self) -> nn.Module:
        heads = self.tower.head
        if not isinstance(heads, nn.ModuleDict):
            raise TypeError(f"{type(heads).__name__} is no mapping of layers to winner-take-all layers")
        return heads[str(self.layer)]


def states_of(tower: HiddenStates, input_ids: Tensor, attention_mask: Tensor) -> dict[int, Tensor]:
    """States ``(batch, tokens, hidden)`` by layer."""
    states = tower(input_ids, attention_mask)
    return dict(zip(tower.layers, states if isinstance(states, tuple) else (states,), strict=True))


def cut(weights: Tensor, keep: int | None) -> Tensor:
    """``weights`` ``(batch, n)`` without all but the ``keep`` largest of each row."""
    return weights if keep is None else keep_largest(weights, min(keep, weights.shape[1]))


def binarized(weights: Tensor) -> Tensor:
    """1 where ``weights`` are above 0; without gradient."""
    return (weights > 0).to(weights.dtype)
