"""Build an index of vectors or of plain text, and compare its counts with the input before it appears."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from learned_sparse.core.errors import LearnedSparseError, counted, progress_bar
from learned_sparse.core.machine import processors
from learned_sparse.core.records import Document
from learned_sparse.core.terms import unfit_id_reason
from learned_sparse.index.direct import BATCH_DOCUMENTS, DirectCounts, in_threads, index_directly
from learned_sparse.index.note import IndexNote, new_index
from learned_sparse.index.vectors import VectorFiles, differing_totals, open_vectors
from learned_sparse.jsonvector.manifest import STATISTICS
from learned_sparse.lucene.jvm import anserini_jar
from learned_sparse.lucene.reader import read_contents
from learned_sparse.lucene.writer import LuceneWriter

if TYPE_CHECKING:
    from learned_sparse.ray import Engine

logger = logging.getLogger(__name__)

BLANK = "".join(map(chr, range(33)))
"""White space of Java's ``String.trim``, by which Anserini decides that a text is empty."""


def build_index(
    vectors: VectorFiles | str | Path | Sequence[Path],
    index: str | Path,
    *,
    threads: int | None = None,
    term_vectors: bool = False,
    overwrite: bool = False,
    heap: str | None = None,
    engine: Engine | None = None,
) -> IndexNote:
    """Index ``vectors`` into the folder ``index``, which appears only if its counts equal those of the files.

    ``vectors`` are a folder written by learned_sparse.encode, all its shards, or folders of JsonVectorCollection files.
    ``threads`` defaults to one for each processor, at most 4. ``term_vectors`` are stored for stock Pyserini's feedback
    (``--rm3``). ``heap`` (``"4g"``) limits the memory of Java. With an ``engine``, each of its workers indexes some of
    the files, and the indexes are merged. Returns the note that is saved in the index.
    """
    vectors, index = open_vectors(vectors), Path(index)
    if not sum(vectors.documents):
        raise LearnedSparseError("no documents to index; encode a collection first")
    impact = vectors.scoring == "impact"
    with new_index(index, overwrite=overwrite) as folder:
        documents, files = counted(sum(vectors.documents), "document"), counted(len(vectors.files), "file")
        logger.info("indexing %s of %s", documents, files)
        how: dict[str, Any] = {"term_vectors": term_vectors, "threads": threads, "heap": heap}
        if engine is None:
            with progress_bar(None, index.name, "documents", sum(vectors.documents)) as bar:
                read = index_directly(vectors.files, folder, impact=impact, progress=bar.update, **how)
        else:
            from learned_sparse.index.shards import index_shards

            read = index_shards(engine, vectors, folder, **how)
        contents = read_contents(folder)
        if wrong := differing_totals(vectors, contents, read.total_impacts):
            raise LearnedSparseError(f"{index}: {'; '.join(wrong)}; make the index again")
        for statistics in {file.parent.parent / STATISTICS for file in vectors.files} if vectors.manifests else ():
            if statistics.is_file():  # of BM25, to explain documents
                shutil.copyfile(statistics, folder / STATISTICS)
        facts: dict[str, Any] = {"anserini": anserini_jar().name, "documents": contents.documents}
        facts |= {"postings": contents.postings, "total_impacts": contents.total_impacts}
        note = IndexNote(vectors.scoring, vectors.manifests, facts)
        note.save(folder)
    return note


def build_bm25_index(
    documents: Iterable[Document],
    index: Path,
    *,
    threads: int | None = None,
    overwrite: bool = False,
    heap: str | None = None,
) -> int:
    """Index the text of ``documents`` with Anserini's English analyzer; returns the number of documents in the index.

    As in Anserini, documents without text are not in the index. Their number is logged, and kept in the note.
    """
    with new_index(index, overwrite=overwrite) as folder:
        empty: list[str] = []
        with LuceneWriter(folder, impact=False, text=True, heap=heap) as writer:

            def add(batch: list[Document]) -> DirectCounts:
                writer.add([document.id for document in batch], [document.text for document in batch])
                return DirectCounts(len(batch))

            given = in_threads(add, _batches(documents, empty), threads or processors()).documents
        if not given and not empty:
            raise LearnedSparseError("no documents to index")
        contents = read_contents(folder)
        if contents.documents != given:
            raise LearnedSparseError(f"{index}: {given:,} documents given, {contents.documents:,} in the index")
        if contents.distinct_ids != contents.documents:
            raise LearnedSparseError(f"{index}: {contents.documents - contents.distinct_ids:,} documents repeat an id")
        if empty:
            logger.info("%s without text: not in the index", counted(len(empty), "document"))
        facts = {"anserini": anserini_jar().name, "documents": contents.documents, "empty": len(empty)}
        IndexNote("bm25-text", (), facts).save(folder)
    return contents.documents


def _batches(documents: Iterable[Document], empty: list[str]) -> Generator[list[Document], None, None]:
    """``documents`` in lists of at most ``BATCH_DOCUMENTS``; ids of documents without text are added to ``empty``."""
    batch: list[Document] = []
    for document in documents:
        if reason := unfit_id_reason(document.id):
            raise LearnedSparseError(f"{reason}; rename the document")
        if not document.text.strip(BLANK):
            empty.append(document.id)
            continue
        batch.append(document)
        if len(batch) == BATCH_DOCUMENTS:
            yield batch
            batch = []
    yield batch
