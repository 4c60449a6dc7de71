"""Write Lucene indexes whose term frequencies are impacts, with the fields that Anserini writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.lucene.jvm import (
    BM25_SIMILARITY,
    HEAP_VARIABLE,
    IMPACT_SIMILARITY,
    LUCENE_CALLS,
    english_analyzer,
    start_jvm,
)

DELIMITER = "\x01"
"""Character between a term and its impact. No tokenizer makes terms with it, and Java holds it in one byte."""
MAX_BUFFER_MB = 512
"""Postings (MB) that Lucene collects before it writes a segment; at most a quarter of the heap."""
_MAX_TOKEN_LENGTH = 1_024  # of a term, the delimiter and the impact; Lucene's default of 255 would split long terms


class LuceneWriter:
    """Write an index of one segment. Use it in a ``with`` block: an error inside drops everything that was written.

    Several threads may call ``add`` at the same time; each works in a ``java_thread`` block.
    """

    def __init__(self, index: Path, *, impact: bool, text: bool = False, heap: str | None = None) -> None:
        """``impact``: documents are scored by dot products; else by BM25, and the index holds document lengths.

        ``text``: contents are text for Anserini's English analyzer; else terms with impacts. ``heap`` limits the memory
        of Java (see ``find_java``); an error if this process runs Java already.
        """
        import jnius_config

        if heap and jnius_config.vm_running:
            raise LearnedSparseError(f"heap {heap}: this process runs Java already; set the heap in a new process")
        start_jvm(heap=heap)
        from jnius import JavaException, autoclass

        self._index, self._calls, self._java_exception = index, autoclass(LUCENE_CALLS), JavaException
        self._field_type = autoclass("org.apache.lucene.document.FieldType")()
        self._field_type.setIndexOptions(autoclass("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
        self._field_type.freeze()
        directory = autoclass("org.apache.lucene.store.FSDirectory").open(
            autoclass("java.nio.file.Paths").get(str(index.resolve()))
        )
        similarity = IMPACT_SIMILARITY if impact else BM25_SIMILARITY
        builder = autoclass("org.apache.lucene.analysis.custom.CustomAnalyzer").builder()
        builder.withTokenizer("whitespace", "maxTokenLen", str(_MAX_TOKEN_LENGTH))
        analyzer = builder.addTokenFilter("delimitedTermFrequency", "delimiter", DELIMITER).build()
        config = autoclass("org.apache.lucene.index.IndexWriterConfig")(english_analyzer() if text else analyzer)
        config.setSimilarity(autoclass(similarity)())
        config.setUseCompoundFile(False)
        heap_mb = int(autoclass("java.lang.Runtime").getRuntime().maxMemory()) / 2**20
        config.setRAMBufferSizeMB(min(MAX_BUFFER_MB, heap_mb / 4))
        self._writer = autoclass("org.apache.lucene.index.IndexWriter")(directory, config)

    def add(self, ids: Sequence[str], contents: Sequence[str]) -> None:
        """Index documents in their order; other Python threads run meanwhile.

        Each of ``contents`` is text, or holds terms and impacts as ``term + DELIMITER + impact``, separated by spaces.
        ``LearnedSparseError``: Lucene rejects one of the documents.
        """
        try:
            problem = self._calls.add(self._writer, self._field_type, list(ids), list(contents))
        except self._java_exception as error:  # raised while pyjnius makes the strings
            problem = f"{error.classname}: {error}"
        if problem is not None:
            raise self._error(problem)

    def __enter__(self) -> LuceneWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        problem = self._calls.close(self._writer, kind is None)
        if kind is None and problem:
            self._calls.close(self._writer, False)
            raise self._error(problem)

    def _error(self, problem: str) -> LearnedSparseError:
        if "OutOfMemoryError" in problem:
            return LearnedSparseError(
                f"Java ran out of memory; give it more with --heap, such as --heap 4g (or ${HEAP_VARIABLE})"
            )
        full = "; free disk space" if re.search("No space left|File too large|quota", problem) else ""
        return LearnedSparseError(f"{self._index}: Lucene: {problem}{full}")
