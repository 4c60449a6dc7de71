"""Room learned_sparse.index."""

from __future__ import annotations

from learned_sparse.index.bm25_index import build_bm25_index
from learned_sparse.index.note import INDEX_MANIFEST, IndexNote, is_index_note
from learned_sparse.index.vectors import VectorFiles, encoded_files

__all__ = ["INDEX_MANIFEST", "IndexNote", "VectorFiles", "build_bm25_index", "encoded_files", "is_index_note"]
