"""Documents and queries through an encoder into vector files, from Python or from the command line.

``write_vectors`` encodes an iterable of documents. ``python -m learned_sparse.encode`` does the same for collections,
files and queries. Read ``pipeline`` first, then ``parts`` (files, resuming), ``quantizers``, and ``options``
and ``run`` (the command). ``bm25`` is an encoder, and ``hybrid`` joins a model with it.
"""

from __future__ import annotations

from learned_sparse.encode.bm25 import AnalyzedText, Bm25Documents, Bm25Statistics
from learned_sparse.encode.hybrid import ALPHA, PARTS, hybrid_sides, load_encoder
from learned_sparse.encode.pipeline import write_vectors
from learned_sparse.encode.quantizers import query_quantizer

__all__ = [
    "ALPHA",
    "PARTS",
    "AnalyzedText",
    "Bm25Documents",
    "Bm25Statistics",
    "hybrid_sides",
    "load_encoder",
    "query_quantizer",
    "write_vectors",
]
