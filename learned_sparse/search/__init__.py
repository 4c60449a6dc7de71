"""Queries to hits: query encoders, searchers (Lucene, exact), runs of documents out of segments.

Read ``query_encoder`` first, then ``exact_searcher``, then ``run``.
"""

from __future__ import annotations

from learned_sparse.search.exact_searcher import ExactSearcher, best_rows
from learned_sparse.search.passages import SEGMENTS_EACH, Passages, Rows
from learned_sparse.search.query_encoder import QueryEncoder, encoder_named
from learned_sparse.search.run import open_searcher, questions

__all__ = [
    "SEGMENTS_EACH",
    "ExactSearcher",
    "Passages",
    "QueryEncoder",
    "Rows",
    "best_rows",
    "encoder_named",
    "open_searcher",
    "questions",
]
