"""Build Lucene indexes of encoded documents, or of plain text for BM25, and verify them.

Read ``build.py`` first. ``direct.py`` writes impacts without Anserini; ``vectors.py`` compares an index with its files.
"""

from __future__ import annotations

from learned_sparse.index.build import build_bm25_index, build_index
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote, is_index_note
from learned_sparse.index.vectors import VectorFiles, encoded_files, open_vectors, plain_files

__all__ = [
    "INDEX_MANIFEST",
    "IndexNote",
    "VectorFiles",
    "build_bm25_index",
    "build_index",
    "encoded_files",
    "is_index_note",
    "open_vectors",
    "plain_files",
]
