"""SPLADE v1 (Formal et al., SIGIR 2021), and what its paper and successors vary: max pooling, no log, lexical-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from encoders.backbone import Tower
from encoders.checkpoints import Vocabulary
from encoders.head import Pooling, Saturation, Shares, lexical_pool, pool, pooled_shares
from encoders.models.architecture import Architecture
from encoders.models.bag_of_words import BagOfWords, SpecialTokens, counts, unblocked
from learned_sparse.core import Side


@dataclass(frozen=True, kw_only=True)
class SpladeSettings:
    """Defaults are SPLADE v1's.

    Other rows of its Table 1: *ST lexical-only* is ``expansion: lexical, saturation: none``, *ST exp* is
    ``saturation: none`` (no gate). Released ``naver/splade*`` checkpoints are ``pooling: max``.
    """

    pooling: Pooling = "sum"
    """Over the text's tokens: ``sum`` (v1, Eq. 4) or ``max`` (v2 and later)."""
    saturation: Saturation = "log"
    """``log``: log(1 + ReLU(w)); ``none``: ReLU(w) (Eq. 2 with g = 1)."""
    expansion: Literal["full", "lexical"] = "full"
    """``lexical``: only terms of the text itself keep their weight (g = bag of words)."""
    query: Literal["same", "separate", "bag-of-words"] = "same"
    """``same``: one tower for both sides (paper); ``bag-of-words``: queries learn nothing (SPLADE-doc)."""
    query_weighting: Literal["binary", "tf"] = "binary"
    """Of bag-of-words queries; SPLADE-doc counts a repeated term once."""
    pool_special_tokens: bool = True
    """Whether the positions of [CLS] and [SEP] are pooled too: yes in paper and code."""
    bow_special_tokens: SpecialTokens = "unknown"
    """In the bag of words of ``lexical`` and ``bag-of-words``. The published code takes [CLS], [SEP], [MASK] out, keeps
    [UNK], and means to take [PAD] out but does not (its id is 0, which the code takes for "none")."""
    block_special_terms: bool = False
    """Whether the dimensions of special and ``[unused]`` tokens are always 0: no dimension is, in paper and code."""


class Splade(nn.Module):
    """One side of SPLADE: pooled, saturated masked-LM logits."""

    def __init__(self, settings: SpladeSettings, tower: Tower, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.tower = tower
        self._pooling, self._saturation = settings.pooling, settings.saturation
        self._lexical = settings.expansion == "lexical"
        self.bag_of_words = BagOfWords(vocabulary, "binary", settings.bow_special_tokens)
        self._pooled_tokens: Tensor
        self._unblocked: Tensor
        self.register_buffer(
            "_pooled_tokens", counts(vocabulary, "all" if settings.pool_special_tokens else "unknown"), persistent=False
        )
        self.register_buffer(
            "_unblocked", unblocked(vocabulary, block_special_terms=settings.block_special_terms), persistent=False
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Weights ``(batch, vocabulary)``."""
        hidden = self.tower(input_ids, attention_mask)
        pooled = attention_mask.bool() & self._pooled_tokens[input_ids]
        decoder = (self.tower.decoder_weight, self.tower.decoder_bias)
        if self._lexical:
            literal = self.bag_of_words.literal_positions(input_ids, attention_mask)
            weights = lexical_pool(
                hidden, input_ids, pooled, literal, *decoder, pooling=self._pooling, saturation=self._saturation
            )
        else:
            weights = pool(hidden, pooled, *decoder, pooling=self._pooling, saturation=self._saturation)
        return weights * self._unblocked

    def shares(self, input_ids: Tensor, attention_mask: Tensor, columns: Tensor) -> list[Shares]:
        """What each token gives to the weights ``columns`` of one text (see ``encoders.head.attribution``)."""
        pooled = attention_mask.bool() & self._pooled_tokens[input_ids]
        states = (self.tower(input_ids, attention_mask), pooled, self.tower.decoder_weight, self.tower.decoder_bias)
        return [pooled_shares(*states, columns, pooling=self._pooling, saturation=self._saturation)]


def _towers(settings: SpladeSettings, side: Side) -> tuple[str, ...]:
    if side == "document" or settings.query == "same":
        return ("document",)
    return ("query",) if settings.query == "separate" else ()


def _weigher(settings: SpladeSettings, side: Side, towers: Mapping[str, Tower], vocabulary: Vocabulary) -> nn.Module:
    names = _towers(settings, side)
    if not names:
        return BagOfWords(vocabulary, settings.query_weighting, settings.bow_special_tokens)
    return Splade(settings, towers[names[0]], vocabulary)


def _scale(settings: SpladeSettings, side: Side) -> float | None:
    if side == "query" and settings.query == "bag-of-words":
        return 1.0
    # 100: the published export. Sums without log reach hundreds, which a fixed factor would blow up.
    return 100.0 if settings.saturation == "log" else None


SPLADE = Architecture(
    settings=SpladeSettings,
    towers=_towers,
    weigher=_weigher,
    scale=_scale,
    shared=lambda settings: settings.query == "same",
)
