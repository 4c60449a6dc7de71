"""Plain text into a Lucene index for BM25, as Anserini's baselines are indexed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import orjson

from learned_sparse.core import Document, LearnedSparseError
from learned_sparse.index.note import IndexNote, new_index
from learned_sparse.lucene import anserini_jar, index_collection, read_contents


def build_bm25_index(
    documents: Iterable[Document],
    index: Path,
    *,
    threads: int | None = None,
    overwrite: bool = False,
    heap: str | None = None,
) -> int:
    """Index the text of ``documents`` with Anserini's English analyzer; the number of documents in the index.

    Documents without any text are not in it (Anserini leaves them out, and BM25 could not find them).
    """
    threads = threads or os.cpu_count() or 1
    with new_index(index, overwrite=overwrite) as folder:
        source = folder / "source"
        written = _write(documents, source, threads)
        if not written:
            raise LearnedSparseError("no documents to index")
        counts = index_collection("JsonCollection", source, folder, [], threads=threads, heap=heap)
        for file in source.iterdir():
            file.unlink()
        source.rmdir()
        contents = read_contents(folder)
        if contents.documents != counts.documents or counts.documents + counts.empty != written:
            raise LearnedSparseError(
                f"{index}: {written:,} documents given, {contents.documents:,} in the index, {counts.empty:,} empty"
            )
        if contents.distinct_ids != contents.documents:
            raise LearnedSparseError(f"{index}: {contents.documents - contents.distinct_ids:,} documents repeat an id")
        facts = {"anserini": anserini_jar().name, "documents": contents.documents, "empty": counts.empty}
        IndexNote("bm25-text", (), facts).save(folder)
    return contents.documents


def _write(documents: Iterable[Document], folder: Path, files: int) -> int:
    """Spread ``documents`` over ``files`` files (Anserini reads each on a thread of its own); how many there were."""
    folder.mkdir()
    number = -1
    with ExitStack() as stack:
        parts = [stack.enter_context((folder / f"{part:03d}.jsonl").open("wb")) for part in range(files)]
        for number, document in enumerate(documents):
            if document.id.split() != [document.id]:
                raise LearnedSparseError(f"document id {document.id!r}: empty or with white space; no run can hold it")
            line = orjson.dumps({"id": document.id, "contents": document.text}, option=orjson.OPT_APPEND_NEWLINE)
            parts[number % files].write(line)
    return number + 1
