"""Queries to hits: query encoders, searchers (Lucene; vectors in memory), documents ranked by their segments.

Read ``query_encoder`` first (texts to impacts), then the command, ``python -m learned_sparse.search``, and
``exact_searcher``; ``engines`` has PISA and Seismic as backends, ``maxp`` ranks documents by their segments, and
``pyterrier`` has transformers.
"""

__all__ = ["engines", "exact_searcher", "maxp", "pyterrier", "query_encoder"]
"""Public modules."""
