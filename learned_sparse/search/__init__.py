"""Queries to hits: query encoders, searchers (Lucene; vectors in memory), documents ranked by their segments.

Read ``query_encoder`` first (texts to impacts), then ``searching`` (one interface to all searchers) and
``exact_searcher``; ``engines`` has PISA and Seismic as backends,
``pyterrier`` transformers, ``lsr_benchmark`` a system of that benchmark. The
command is ``python -m learned_sparse.search``.
"""

from __future__ import annotations

from learned_sparse.search.engines import (
    PisaSearcher,
    SeismicSearcher,
    VectorSearcher,
    add_backend_options,
    load_backend,
    seismic_settings,
)
from learned_sparse.search.exact_searcher import ExactSearcher, best_rows
from learned_sparse.search.pyterrier import document_transformer, query_transformer
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
    "PisaSearcher",
    "QueryEncoder",
    "Rows",
    "SeismicSearcher",
    "VectorSearcher",
    "add_backend_options",
    "add_bm25_options",
    "best_rows",
    "bm25_parameters",
    "document_transformer",
    "encoder_named",
    "find_checkpoint",
    "load_backend",
    "open_searcher",
    "queries_by_id",
    "query_transformer",
    "seismic_settings",
]
