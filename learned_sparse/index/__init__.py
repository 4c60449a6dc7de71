"""Build Lucene indexes of encoded documents, or of plain text for BM25, and verify them.

Read ``build.py`` first; ``note.py`` has the folder of an index and what it records.
"""

__all__ = ["build", "note"]
"""Public modules."""
