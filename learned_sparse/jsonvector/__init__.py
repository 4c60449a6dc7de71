"""Room learned_sparse.jsonvector.vector_files."""

from __future__ import annotations

from learned_sparse.jsonvector.manifest import (
    EXACT_FLOATS,
    MANIFEST,
    Counts,
    Manifest,
    Part,
    differences,
    exactness_warning,
    versions,
)
from learned_sparse.jsonvector.prune_rule import PRUNING, Rule, more_frequent
from learned_sparse.jsonvector.queries_export import (
    ENCODED,
    TOPICS,
    read_topics,
    renamed_ids,
    topic_text,
    write_queries,
)
from learned_sparse.jsonvector.vector_files import (
    MAX_REPEATED_CHARACTERS,
    BadLineError,
    LineReader,
    PartFile,
    WrittenPart,
    numbered_lines,
    open_lines,
    open_part,
    read_vector_files,
    read_vectors,
    vector_files,
)

__all__ = [
    "ENCODED",
    "EXACT_FLOATS",
    "MANIFEST",
    "MAX_REPEATED_CHARACTERS",
    "PRUNING",
    "TOPICS",
    "BadLineError",
    "Counts",
    "LineReader",
    "Manifest",
    "Part",
    "PartFile",
    "Rule",
    "WrittenPart",
    "differences",
    "exactness_warning",
    "more_frequent",
    "numbered_lines",
    "open_lines",
    "open_part",
    "read_topics",
    "read_vector_files",
    "read_vectors",
    "renamed_ids",
    "topic_text",
    "vector_files",
    "versions",
    "write_queries",
]
