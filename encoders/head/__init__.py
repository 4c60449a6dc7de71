"""From hidden states to term weights: pooled vocabulary scores, the top k per token, and their attribution to tokens.

Start reading in ``vocabulary_head`` (``pool``); ``tiled_scores`` computes the scores. All functions have gradients and
never hold a tensor (batch, tokens, vocabulary).
"""

from __future__ import annotations

from encoders.head.attribution import Attributing, Shares, attribute, largest_shares, merged_shares, pooled_shares
from encoders.head.screen import MIN_TERMS, Screen
from encoders.head.tiled_scores import Pooling
from encoders.head.token_top_k import WinnerTakeAll, keep_largest, max_pool_entries, top_k_per_row
from encoders.head.vocabulary_head import Saturation, first_occurrences, lexical_pool, pool, pool_columns

__all__ = [
    "MIN_TERMS",
    "Attributing",
    "Pooling",
    "Saturation",
    "Screen",
    "Shares",
    "WinnerTakeAll",
    "attribute",
    "first_occurrences",
    "keep_largest",
    "largest_shares",
    "lexical_pool",
    "max_pool_entries",
    "merged_shares",
    "pool",
    "pool_columns",
    "pooled_shares",
    "top_k_per_row",
]
