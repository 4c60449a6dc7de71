"""Documents and queries through an encoder into vector files, from Python or from the command line.

``write_vectors`` encodes an iterable of documents. ``python -m learned_sparse.encode`` does the same for collections,
files and queries. Read ``pipeline`` first, then ``parts`` (files, resuming) and ``run`` (the command). ``bm25`` is an
encoder, and ``hybrid`` joins a model with it.
"""

__all__ = ["bm25", "hybrid", "pipeline"]
"""Public modules."""
