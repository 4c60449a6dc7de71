"""Room encoders.head."""

from __future__ import annotations

from encoders.head.attribution import Attributing, Shares, attribute, largest_shares, merged_shares, pooled_shares
from encoders.head.token_top_k import keep_largest, max_pool_entries, top_k_per_row
from encoders.head.vocabulary_head import Pooling, Saturation, first_occurrences, lexical_pool, pool, pool_columns
from encoders.head.winner_take_all import WinnerTakeAll

__all__ = [
    "Attributing",
    "Pooling",
    "Saturation",
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
