"""Build Lucene indexes of encoded documents, or of plain text for BM25, and verify them.

Read ``build.py`` first. ``direct.py`` writes impacts without Anserini; ``vectors.py`` compares an index with its files.
"""

__all__ = ["build", "note", "vectors"]
"""Public modules."""
