"""Queries to hits: query encoders, searchers (Lucene; vectors in memory), documents ranked by their segments.

Read ``query_encoder`` first (texts to impacts), then ``searching`` (one interface to all searchers) and
``exact_searcher``; ``engines`` has PISA and Seismic as backends, ``pyterrier`` transformers. The command is
``python -m learned_sparse.search``.
"""

__all__ = ["engines", "exact_searcher", "pyterrier", "query_encoder", "searching"]
"""Public modules."""
