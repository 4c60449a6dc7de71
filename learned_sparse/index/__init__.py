"""Build Lucene indexes of encoded documents, or of plain text for BM25, and verify them.

Read ``build.py`` first; ``note.py`` has what an index records.
"""

__all__ = ["build", "note"]
"""Public modules."""
