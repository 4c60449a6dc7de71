"""Room learned_sparse.search."""

from __future__ import annotations

from learned_sparse.search.exact_loading import load_vectors
from learned_sparse.search.exact_postings import Postings, Scores, best
from learned_sparse.search.passages import SEGMENTS_EACH, Passages, Rows
from learned_sparse.search.query_encoder import QueryImpacts, encoder_named
from learned_sparse.search.run import open_searcher, questions

__all__ = [
    "SEGMENTS_EACH",
    "Passages",
    "Postings",
    "QueryImpacts",
    "Rows",
    "Scores",
    "best",
    "encoder_named",
    "load_vectors",
    "open_searcher",
    "questions",
]
