"""Build Lucene indexes of encoded documents, or of plain text for BM25, and verify them.

Read ``build.py`` first. ``vectors.py`` compares an index with its files.
"""

__all__ = ["build", "note", "vectors"]
"""Public modules."""
