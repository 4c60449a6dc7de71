"""Queries to hits: query encoders, searchers (Lucene or exact, in memory), documents ranked by their segments.

Read ``query_encoder`` first (texts to impacts), then ``searching`` (one interface to all searchers) and
``exact_searcher``; ``distributed`` has the workers of ``--engine ray``. ``python -m learned_sparse.search`` is the
command.
"""

from __future__ import annotations

from learned_sparse.search.distributed import search_with_ray
from learned_sparse.search.exact_searcher import ExactSearcher, best_rows
from learned_sparse.search.query_encoder import QueryEncoder, encoder_named, find_checkpoint
from learned_sparse.search.searching import (
    SEGMENTS_PER_DOCUMENT,
    MaxP,
    Rows,
    add_bm25_options,
    bm25_parameters,
    open_searcher,
    queries_by_id,
)

__all__ = [
    "SEGMENTS_PER_DOCUMENT",
    "ExactSearcher",
    "MaxP",
    "QueryEncoder",
    "Rows",
    "add_bm25_options",
    "best_rows",
    "bm25_parameters",
    "encoder_named",
    "find_checkpoint",
    "open_searcher",
    "queries_by_id",
    "search_with_ray",
]
