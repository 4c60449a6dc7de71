"""Build an index of vectors or of plain text, and verify it before it takes its name."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson

from learned_sparse.core import Document, LearnedSparseError, counted, processors, progress_bar, unfit_id_reason
from learned_sparse.index.direct import index_directly
from learned_sparse.index.note import IndexNote, new_index
from learned_sparse.index.shards import index_shards
from learned_sparse.index.vectors import Check, VectorFiles, check_index, open_vectors
from learned_sparse.jsonvector import STATISTICS
from learned_sparse.lucene import IndexedCounts, anserini_jar, index_collection, read_contents
from learned_sparse.ray import Engine

logger = logging.getLogger(__name__)

STORE = ("Docvectors", "Positions", "Raw", "Contents")
"""What Anserini can store beside the impacts (``-storeDocvectors``, ...)."""
SAMPLE = 100
"""Number of documents whose postings are verified."""


def build_index(
    vectors: VectorFiles | str | Path | Sequence[Path],
    index: str | Path,
    *,
    threads: int | None = None,
    store: Sequence[str] = (),
    overwrite: bool = False,
    heap: str | None = None,
    direct: bool = True,
    engine: Engine | None = None,
) -> IndexNote:
    """Index ``vectors`` into the folder ``index`` and compare the two; the folder appears only if nothing differs.

    ``vectors`` are a folder written by learned_sparse.encode, all its shards, or folders of JsonVectorCollection files.
    ``direct``: write each impact as one number; else Anserini's IndexCollection repeats each term impact times.
    ``threads`` defaults to one for each processor, at most 4 (with Anserini: one for each file). ``heap`` (``"4g"``)
    limits the memory of Java. With an ``engine``, its tasks index a part of the files each, and the indexes are merged.
    Returns the note that is saved in the index.
    """
    vectors, index = open_vectors(vectors), Path(index)
    if not sum(vectors.documents):
        raise LearnedSparseError("no documents to index; encode a collection first")
    impact = vectors.scoring == "impact"
    options = ["-pretokenized", *(["-impact"] if impact else []), *(f"-store{name}" for name in store)]
    with new_index(index, overwrite=overwrite) as folder:
        documents, files = counted(sum(vectors.documents), "document"), counted(len(vectors.files), "file")
        logger.info("indexing %s of %s", documents, files)
        if direct:
            how: Any = {"store": store, "threads": threads, "heap": heap}
            if engine is None:
                with progress_bar(None, index.name, "documents", sum(vectors.documents)) as bar:
                    read = index_directly(vectors.files, folder, impact=impact, progress=bar.update, **how)
            else:
                read = index_shards(engine, vectors, folder, **how)
            check = verify(vectors, folder)
            _compare(index, "sum of impacts", read.total_impacts, check.contents.total_impacts)
        else:
            counts = _with_anserini(vectors.files, folder, options, threads, heap)
            _compare(index, "documents by Anserini's log", sum(vectors.documents), counts.documents)
            check = verify(vectors, folder)
        facts: dict[str, Any] = {
            "anserini": anserini_jar().name,
            "indexer": "direct" if direct else "IndexCollection",
            "documents": check.contents.documents,
            "postings": check.contents.postings,
            "total_impacts": check.contents.total_impacts,
            "options": options,
            "verified_documents": check.documents,
        }
        for statistics in {file.parent.parent / STATISTICS for file in vectors.files} if vectors.manifests else ():
            if statistics.is_file():  # of BM25, to explain documents
                shutil.copyfile(statistics, folder / STATISTICS)
        note = IndexNote(vectors.scoring, vectors.manifests, facts)
        note.save(folder)
    return note


def verify(vectors: VectorFiles, index: Path) -> Check:
    """Compare an index with its files (see ``check_index``); any difference is a ``LearnedSparseError``."""
    check = check_index(vectors, index, SAMPLE)
    if check.differences:
        raise LearnedSparseError(f"{index}: {check.report()}\nmake the index again")
    return check


def build_bm25_index(
    documents: Iterable[Document],
    index: Path,
    *,
    threads: int | None = None,
    overwrite: bool = False,
    heap: str | None = None,
) -> int:
    """Index the text of ``documents`` with Anserini's English analyzer; returns the number of documents in the index.

    Documents without text are not in the index: Anserini leaves them out, and BM25 cannot find them. Their number is
    logged, and kept in the note of the index.
    """
    threads = threads or processors()
    with new_index(index, overwrite=overwrite) as folder:
        source = folder / "source"
        written = _write_texts(documents, source, threads)
        if not written:
            raise LearnedSparseError("no documents to index")
        logger.info("%s of plain text; Anserini indexes them", counted(written, "document"))
        counts = index_collection("JsonCollection", source, folder, [], threads=threads, heap=heap)
        shutil.rmtree(source)
        contents = read_contents(folder)
        if contents.documents != counts.documents or counts.documents + counts.empty != written:
            raise LearnedSparseError(
                f"{index}: {written:,} documents given, {contents.documents:,} in the index, {counts.empty:,} empty"
            )
        if contents.distinct_ids != contents.documents:
            raise LearnedSparseError(f"{index}: {contents.documents - contents.distinct_ids:,} documents repeat an id")
        if counts.empty:
            logger.info("%s without text: not in the index", counted(counts.empty, "document"))
        facts = {"anserini": anserini_jar().name, "documents": contents.documents, "empty": counts.empty}
        IndexNote("bm25-text", (), facts).save(folder)
    return contents.documents


def _write_texts(documents: Iterable[Document], folder: Path, files: int) -> int:
    """Spread ``documents`` over ``files`` files, each for one thread of Anserini; returns their number."""
    folder.mkdir()
    number = -1
    with ExitStack() as stack:
        parts = [stack.enter_context((folder / f"{part:03d}.jsonl").open("wb")) for part in range(files)]
        for number, document in enumerate(documents):
            if reason := unfit_id_reason(document.id):
                raise LearnedSparseError(f"{reason}; rename the document")
            line = orjson.dumps({"id": document.id, "contents": document.text}, option=orjson.OPT_APPEND_NEWLINE)
            parts[number % files].write(line)
    return number + 1


def _with_anserini(
    files: Sequence[Path], folder: Path, options: Sequence[str], threads: int | None, heap: str | None
) -> IndexedCounts:
    """Anserini reads one folder, each file on one thread: a folder of links (or copies) with distinct names."""
    threads = max(1, min(threads or processors(), len(files)))
    source = folder / "source"
    source.mkdir()
    for number, file in enumerate(files):
        link = source / f"{number:05d}-{file.name}"
        try:
            link.symlink_to(file.resolve())
        except OSError:  # Windows, without the right to create links
            shutil.copyfile(file, link)
    counts = index_collection("JsonVectorCollection", source, folder, options, threads=threads, heap=heap)
    shutil.rmtree(source)
    return counts


def _compare(index: Path, what: str, expected: int, indexed: int) -> None:
    if expected != indexed:
        raise LearnedSparseError(f"{index}: {what}: {expected:,} in the files, {indexed:,} in the index")
