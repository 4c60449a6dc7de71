"""Queries to hits: query encoders, searchers (Lucene; vectors in memory), documents ranked by their segments.

Read ``query_encoder`` first (texts to impacts), then ``searching`` (one interface to all searchers) and
``exact_searcher``; ``engines`` has PISA and Seismic as backends, ``pyterrier`` transformers. The command is
``python -m learned_sparse.search``.
"""

from __future__ import annotations

from learned_sparse.search.engines import PisaSearcher as PisaSearcher
from learned_sparse.search.engines import SeismicSearcher as SeismicSearcher
from learned_sparse.search.engines import VectorSearcher as VectorSearcher
from learned_sparse.search.engines import add_backend_options as add_backend_options
from learned_sparse.search.engines import load_backend as load_backend
from learned_sparse.search.engines import seismic_settings as seismic_settings
from learned_sparse.search.exact_searcher import ExactSearcher as ExactSearcher
from learned_sparse.search.exact_searcher import best_rows as best_rows
from learned_sparse.search.pyterrier import document_transformer as document_transformer
from learned_sparse.search.pyterrier import query_transformer as query_transformer
from learned_sparse.search.query_encoder import QueryEncoder as QueryEncoder
from learned_sparse.search.query_encoder import encoder_named as encoder_named
from learned_sparse.search.query_encoder import find_checkpoint as find_checkpoint
from learned_sparse.search.searching import SEGMENTS_PER_DOCUMENT as SEGMENTS_PER_DOCUMENT
from learned_sparse.search.searching import MaxP as MaxP
from learned_sparse.search.searching import Rows as Rows
from learned_sparse.search.searching import add_bm25_options as add_bm25_options
from learned_sparse.search.searching import bm25_parameters as bm25_parameters
from learned_sparse.search.searching import open_searcher as open_searcher
