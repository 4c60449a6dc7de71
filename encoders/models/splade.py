"""SPLADE v1 (Formal et al., SIGIR 2021) and its variants: max pooling, no log, lexical-only, bag-of-words queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from encoders.backbone.towers import LanguageModel
from encoders.checkpoints.tokenizer import Vocabulary
from encoders.head.vocabulary_head import Pooling, Saturation, lexical_pool, pool
from encoders.models.architecture import OneTowerArchitecture, PooledTower
from learned_sparse.core.encoder import Side
from learned_sparse.core.errors import LearnedSparseError

if TYPE_CHECKING:
    from encoders.head.shares import Shares


@dataclass(frozen=True, kw_only=True)
class SpladeSettings(OneTowerArchitecture):
    """Pooled masked-LM logits; queries share the tower (paper), have their own, or are bags of words (SPLADE-doc).

    Defaults are SPLADE v1's.
    Other rows of its Table 1: *ST lexical-only* is ``expansion: lexical, saturation: none``, *ST exp* is
    ``saturation: none`` (no gate). Released ``naver/splade*`` checkpoints are ``pooling: max``.
    """

    pooling: Pooling = "sum"
    """Over the tokens of the text: ``sum`` (v1, Eq. 4) or ``max`` (v2 and later)."""
    saturation: Literal["log", "log-log", "none"] = "log"
    """``log``: log(1 + ReLU(w)); ``none``: ReLU(w) (Eq. 2 with g = 1); ``log-log``: log(1 + log(1 + ReLU(w))), with max
    pooling only (OpenSearch's v3, Shen et al. 2025)."""
    expansion: Literal["full", "lexical"] = "full"
    """``lexical``: only terms of the text itself keep their weight (g = bag of words)."""
    pool_special_tokens: bool = True
    """Whether the positions of [CLS] and [SEP] are pooled too: yes in paper and code."""
    block_special_terms: bool | Literal["special"] = False
    """Whether the dimensions of special and ``[unused]`` tokens are always 0: no in paper and code. ``special``: those
    of special tokens only (OpenSearch)."""

    kind = LanguageModel
    changeable = frozenset({"pooling"})  # a folder of other tools may not record it

    def __post_init__(self) -> None:
        if self.saturation == "log-log" and self.pooling != "max":
            raise LearnedSparseError("saturation: log-log needs pooling: max")

    def network_side(self, side: Side, towers: Mapping[str, Any], vocabulary: Vocabulary) -> nn.Module:
        """``Splade``."""
        name = next(iter(self.networks(side)))
        return Splade(self, towers[name], vocabulary)

    @property
    def network_scale(self) -> float | None:
        """100, the factor of the published export. Sums without log reach hundreds, too much for a fixed factor."""
        return None if self.saturation == "none" else 100.0


class Splade(PooledTower):
    """One side of SPLADE: pooled, saturated masked-LM logits."""

    def __init__(self, settings: SpladeSettings, tower: LanguageModel, vocabulary: Vocabulary) -> None:
        super().__init__(tower, vocabulary, pool_special_tokens=settings.pool_special_tokens)
        self._pooling = settings.pooling
        self._saturation: Saturation = "none" if settings.saturation == "none" else "log"
        self._twice = settings.saturation == "log-log"
        self.bag_of_words: Any = None
        if settings.expansion == "lexical":
            from encoders.models.bags import BagOfWords

            self.bag_of_words = BagOfWords(vocabulary, "binary", settings.bow_special_tokens)
        block = settings.block_special_terms
        unblocked = torch.tensor(vocabulary.counted("none", unused=block == "special")) if block else None
        self.unblocked: Tensor | None
        """Dimensions that may have weight, ``(vocabulary,)`` of bool; None: all."""
        self.register_buffer("unblocked", unblocked, persistent=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``."""
        hidden, pooled, *decoder = self.states(input_ids, attention_mask)
        if self.bag_of_words is not None:
            literal = self.bag_of_words.literal_positions(input_ids, attention_mask)
            weights = lexical_pool(
                hidden, input_ids, pooled, literal, *decoder, pooling=self._pooling, saturation=self._saturation
            )
        else:
            weights = pool(
                hidden, pooled, *decoder, pooling=self._pooling, saturation=self._saturation, screen=self.tower.screen
            )
        # The logarithm is monotone: that of a maximum is the maximum of logarithms.
        weights = weights.log1p() if self._twice else weights
        return weights if self.unblocked is None else weights * self.unblocked

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """The share of each token in the weights ``columns`` of one text."""
        from encoders.head.shares import pooled_shares

        states = self.states(input_ids, attention_mask)
        shares = pooled_shares(*states, columns, pooling=self._pooling, saturation=self._saturation)
        return [shares._replace(value=shares.value.log1p()) if self._twice else shares]
