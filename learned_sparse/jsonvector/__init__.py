"""Encoded documents and queries as files: Anserini's JsonVectorCollection, topics, and their manifest.

``read_vectors`` iterates documents, ``load_vectors`` reads them into arrays, and ``write_part`` writes a file. A
``Manifest`` beside the files records their origin, counts and checksums. Read ``manifest`` first, then ``reader``,
``writer`` and ``queries``; ``weights`` quantises documents of other tools, ``pruning`` removes frequent terms.
"""

from __future__ import annotations

from learned_sparse.jsonvector.manifest import (
    EXACT_FLOATS,
    MANIFEST,
    PRUNING,
    STATISTICS,
    UNVERIFIED,
    Counts,
    Manifest,
    Part,
    anserini_files,
    as_text,
    check_together,
    differences,
    load_manifests,
    parts_sha256,
    same_vectors,
    versions,
)
from learned_sparse.jsonvector.pruning import prune
from learned_sparse.jsonvector.queries import (
    ENCODED,
    TOPICS,
    check_queries,
    read_query_vectors,
    read_topics,
    renamed_ids,
    topic_text,
    write_queries,
)
from learned_sparse.jsonvector.reader import (
    BadLineError,
    LineReader,
    frequent_terms,
    load_vectors,
    numbered_lines,
    read_vectors,
    vector_files,
)
from learned_sparse.jsonvector.weights import quantize_vectors
from learned_sparse.jsonvector.writer import PartFile, new_output, open_part, write_part
