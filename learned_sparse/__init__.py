"""Learned sparse retrieval for Pyserini: text to term weights, to a Lucene index, to a run."""

__version__ = "0.1.0"
