"""Lucene's own index writer, fed with documents whose impacts are term frequencies, as Anserini's index has them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from learned_sparse.core import LearnedSparseError
from learned_sparse.lucene.direct_calls import OUT_OF_MEMORY, WriterCalls
from learned_sparse.lucene.java import HEAP_VARIABLE, start_jvm

DELIMITER = "\x01"
"""Stands between a term and its impact. No tokenizer's term holds it, and Java keeps it in one byte."""
LARGEST_BUFFER = 512
"""Megabytes of postings that Lucene collects before it writes a segment: at most these, at most a quarter of Java's."""
SMALL_MEMORY = 128
"""Megabytes of Java's: where it has less, one thread alone speaks to it, or one could use up what another counts on."""
_LONGEST_TOKEN = 1_024
_MORE_MEMORY = f"Java ran out of memory; give it more with --heap, such as --heap 4g (or ${HEAP_VARIABLE})"


class LuceneError(RuntimeError):
    """What Lucene says of a document it does not take; who reads the file knows which."""


class LuceneWriter:
    """An index of one segment, whole after ``with``; an error inside leaves nothing of it."""

    def __init__(self, index: Path, *, impact: bool, term_vectors: bool = False, heap: str | None = None) -> None:
        """``impact``: scored by dot products, else by BM25 (which keeps the lengths of documents)."""
        _start(heap)
        from jnius import JavaException, autoclass

        self._index = index
        self._java_exception, self._list = JavaException, autoclass("java.util.Arrays").asList
        self._field_type = autoclass("org.apache.lucene.document.FieldType")()
        self._field_type.setIndexOptions(autoclass("org.apache.lucene.index.IndexOptions").DOCS_AND_FREQS)
        self._field_type.setStoreTermVectors(term_vectors)
        self._field_type.freeze()
        directory = autoclass("org.apache.lucene.store.FSDirectory").open(
            autoclass("java.nio.file.Paths").get(str(index.resolve()))
        )
        self._writer = autoclass("org.apache.lucene.index.IndexWriter")(directory, _config(impact))
        self._calls = WriterCalls()
        self._reserve: Any = None
        self.check_memory()

    @property
    def has_little_memory(self) -> bool:
        """Whether Java has less than ``SMALL_MEMORY``."""
        return _megabytes() < SMALL_MEMORY

    def batch(self, size: int) -> Batch:
        """Room for ``size`` documents, for one thread."""
        return Batch(self, self._field_type, size)

    def add(self, documents: Any) -> None:
        """Index a ``java.util.List`` of documents, in their order, without Python's lock."""
        self._call(self._calls.add, documents)

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Turns what Java raises into a ``LuceneError``, or into one that a user can mend."""
        try:
            yield
        except self._java_exception as error:
            raise self._explained(error) from None

    def __enter__(self) -> LuceneWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self._call(self._calls.rollback)
            return
        try:
            with self.explaining():
                self._call(self._calls.finish)
        except LuceneError as problem:
            self._call(self._calls.rollback)
            raise LearnedSparseError(f"{self._index}: {problem}") from None

    def check_memory(self) -> None:
        """To be called before Java is handed a batch: an error if what is held in reserve is used up for good."""
        if self._reserve is None or self._reserve.refersTo(None):
            self._reserve = self._call(self._calls.reserve)

    def _call(self, handle: Any, *arguments: Any) -> Any:
        given = self._list(self._writer, *arguments)  # pyjnius calls the handle of the thread that last looked one up
        result = handle.invokeWithArguments(given)
        if result == OUT_OF_MEMORY:
            raise LearnedSparseError(_MORE_MEMORY)
        return result

    def _explained(self, error: Any) -> Exception:
        """What ended the writer matters more than that another thread found it closed."""
        tragic = self._writer.getTragicException()
        what = f"{error.classname} {error} {tragic.toString() if tragic else ''}"
        if OUT_OF_MEMORY in what:
            return LearnedSparseError(_MORE_MEMORY)
        message = tragic.toString() if tragic else error.innermessage or error.args[0]
        return LearnedSparseError(f"{self._index}: Lucene: {message}") if tragic else LuceneError(str(message))


class Batch:
    """Documents and their fields, made once and filled again and again."""

    def __init__(self, writer: LuceneWriter, field_type: Any, size: int) -> None:
        from jnius import autoclass

        self._writer = writer
        self._documents = autoclass("java.util.ArrayList")()
        self._fields = [_document(self._documents, field_type) for _ in range(size)]

    def add(self, names: Sequence[str], texts: Sequence[str]) -> None:
        """Index documents by the names and texts given, at most as many as there is room for."""
        self._writer.check_memory()
        with self._writer.explaining():
            for (name_field, name_bytes, contents), name, text in zip(self._fields, names, texts, strict=False):
                name_field.setStringValue(name)
                name_bytes.setBytesValue(name.encode())
                contents.setStringValue(text)
            whole = len(names) == len(self._fields)
            self._writer.add(self._documents if whole else self._documents.subList(0, len(names)))


def detach_thread() -> None:
    """To be called at the end of a thread that spoke to Java."""
    import jnius

    jnius.detach()


def _start(heap: str | None) -> None:
    import jnius_config

    if heap and jnius_config.vm_running:
        raise LearnedSparseError(f"heap {heap}: this process runs Java already; ask for memory in a process of its own")
    start_jvm(heap=heap)


def _config(impact: bool) -> Any:
    from jnius import autoclass

    # The tokenizer counts a term with its delimiter and impact: by default it would split at 255 characters.
    analyzer = (
        autoclass("org.apache.lucene.analysis.custom.CustomAnalyzer")
        .builder()
        .withTokenizer("whitespace", "maxTokenLen", str(_LONGEST_TOKEN))
        .addTokenFilter("delimitedTermFrequency", "delimiter", DELIMITER)
        .build()
    )
    similarity = (
        "io.anserini.search.similarity.ImpactSimilarity"
        if impact
        else "org.apache.lucene.search.similarities.BM25Similarity"
    )
    config = autoclass("org.apache.lucene.index.IndexWriterConfig")(analyzer)
    config.setSimilarity(autoclass(similarity)())
    config.setUseCompoundFile(False)
    config.setRAMBufferSizeMB(min(LARGEST_BUFFER, _megabytes() / 4))
    return config


def _megabytes() -> float:
    """Of memory that Java may use."""
    from jnius import autoclass

    return int(autoclass("java.lang.Runtime").getRuntime().maxMemory()) / 2**20


def _document(documents: Any, field_type: Any) -> tuple[Any, Any, Any]:
    """A new document at the end of ``documents``; its fields, as Anserini makes them."""
    from jnius import autoclass, cast

    place = "org.apache.lucene.document."
    nothing = cast("java.lang.CharSequence", autoclass("java.lang.String")("-"))
    name = autoclass(f"{place}StringField")("id", "-", autoclass(f"{place}Field$Store").YES)
    # Anserini's searchers order equal scores by these bytes.
    no_bytes = autoclass("org.apache.lucene.util.BytesRef")(bytearray(b"-"))
    name_bytes = autoclass(f"{place}BinaryDocValuesField")("id", no_bytes)
    contents = autoclass(f"{place}Field")("contents", nothing, field_type)
    document = autoclass(f"{place}Document")()
    for field in (name, name_bytes, contents):
        document.add(field)
    documents.add(document)
    return name, name_bytes, contents
