"""Room learned_sparse.lucene.stock."""

from __future__ import annotations

from learned_sparse.lucene.anserini import (
    LOG,
    IndexContents,
    IndexedCounts,
    document_frequencies,
    every_document_frequency,
    index_collection,
    postings_of,
    read_contents,
    read_impacts,
    sampled_documents,
)
from learned_sparse.lucene.bm25 import Bm25Searcher
from learned_sparse.lucene.direct_lucene import DELIMITER, Batch, LuceneError, LuceneWriter, detach_thread
from learned_sparse.lucene.explain import ids_near, score_of
from learned_sparse.lucene.impacts import ImpactSearcher
from learned_sparse.lucene.java import anserini_jar, find_java, java_environment, start_jvm
from learned_sparse.lucene.registered import registered_qrels_file, registered_topics
from learned_sparse.lucene.stock import (
    allow_clauses,
    analyze,
    impact_searcher,
    longest_analyzed,
    make_encoders_known,
    run_stock,
    search_bm25,
    search_impacts,
)

__all__ = [
    "DELIMITER",
    "LOG",
    "Batch",
    "Bm25Searcher",
    "ImpactSearcher",
    "IndexContents",
    "IndexedCounts",
    "LuceneError",
    "LuceneWriter",
    "allow_clauses",
    "analyze",
    "anserini_jar",
    "detach_thread",
    "document_frequencies",
    "every_document_frequency",
    "find_java",
    "ids_near",
    "impact_searcher",
    "index_collection",
    "java_environment",
    "longest_analyzed",
    "make_encoders_known",
    "postings_of",
    "read_contents",
    "read_impacts",
    "registered_qrels_file",
    "registered_topics",
    "run_stock",
    "sampled_documents",
    "score_of",
    "search_bm25",
    "search_impacts",
    "start_jvm",
]
