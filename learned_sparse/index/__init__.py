"""Build Lucene indexes of encoded documents, or of plain text for BM25, and verify them.

Read ``build.py`` first. ``direct.py`` writes impacts without Anserini; ``vectors.py`` compares an index with its files.
"""

from __future__ import annotations

from learned_sparse.index.build import build_bm25_index as build_bm25_index
from learned_sparse.index.build import build_index as build_index
from learned_sparse.index.note import INDEX_MANIFEST as INDEX_MANIFEST
from learned_sparse.index.note import IndexNote as IndexNote
from learned_sparse.index.note import is_index_note as is_index_note
from learned_sparse.index.vectors import VectorFiles as VectorFiles
from learned_sparse.index.vectors import encoded_files as encoded_files
from learned_sparse.index.vectors import open_vectors as open_vectors
from learned_sparse.index.vectors import plain_files as plain_files
