"""Encode documents into part files; reading, encoding and writing run at the same time."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from learned_sparse.collections import DocumentReader, Segmentation, SegmentReader
from learned_sparse.core import (
    Document,
    Encoder,
    Quantizer,
    locked,
)
from learned_sparse.encode.parts import Describe, PartFolder, PartRecord, Window, describe_run, windows
from learned_sparse.encode.quantizers import Calibration, choose_quantizer, share_quantizer
from learned_sparse.encode.slices import Encoded, PartEncoder, Slice
from learned_sparse.jsonvector import Counts, Manifest

PART_SIZE = 2048
"""Documents of a part file."""

Progress = Callable[[int], object]
"""Function that is called with the number of documents just encoded, such as ``tqdm.update``. Documents of parts that
are finished already are added to the next call."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


def write_vectors(
    folder: str | Path,
    documents: Iterable[Document],
    encoder: Encoder,
    *,
    quantizer: Quantizer | None = None,
    query_encoder: Encoder | None = None,
    model: str = "",
    collection: str | None = None,
    part_size: int = PART_SIZE,
    compress: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Encode ``documents`` into a folder as ``python -m learned_sparse.encode`` does; returns the manifest.

    ``quantizer``: default the encoder's own; without one, 8 bits are calibrated on the first documents.
    ``query_encoder``: if given, the manifest records it, and a search refuses any other query encoder.
    ``model`` and ``collection``: names for the manifest; ``model`` is by default the class name of the encoder.
    ``compress``: write ``.jsonl.gz``. ``resume``: continue an interrupted call. ``overwrite``: replace earlier output.

    ``progress``: called with the number of documents just encoded.

    A document without text gets an empty vector. Repeated ids raise ``LearnedSparseError``. ::

        write_vectors("vectors", [Document("d1", "hives itch")], load_encoder("my-checkpoint"))
    """
    name = model or type(encoder).__name__
    describe = describe_run(
        encoder, query_encoder, kind="documents", collection=collection, model=name,
        checkpoint=encoder.checkpoint or name, options={"part_size": part_size, "gzip": compress},
    )  # fmt: skip
    encoding = DocumentEncoding(PartFolder(Path(folder), compress=compress), _as_reader(documents), encoder, part_size)
    choice = quantizer or choose_quantizer("document", encoder)
    with locked(folder):
        return encoding.run(choice, describe, resume=resume, overwrite=overwrite, progress=progress)


class DocumentEncoding:
    """Encodes a collection, or one shard of it, once.

    Part ``p`` holds the documents from number ``p * part_size`` on, in input order, and belongs to shard
    ``p % num_shards``: the parts of all shards together have the same bytes as those of a run without shards. While
    the encoder computes a slice, the next slice is read and tokenised and the previous one is written.
    """

    def __init__(
        self,
        parts: PartFolder,
        reader: DocumentReader | SegmentReader,
        encoder: Encoder,
        part_size: int = PART_SIZE,
        *,
        num_shards: int = 1,
        shard_id: int = 0,
        adding_up: Segmentation | None = None,
    ) -> None:
        """``adding_up``: the vector of a document is the sum of those of its segments."""
        self._parts, self._reader, self._encoder = parts, reader, encoder
        self._work = PartEncoder(parts, encoder, adding_up=adding_up)
        self._part_size, self._num_shards, self._shard_id = part_size, num_shards, shard_id
        self._other_shards = self._finished = 0
        self._records: dict[int, PartRecord] = {}
        """Records of the finished parts, by number."""
        self.encoded, self.seconds = 0, 0.0
        """Documents that ``run`` has encoded, and the time from reading the first of them to the end of writing."""
        self._began: float | None = None

    def run(
        self,
        quantizer: Quantizer | Calibration,
        describe: Describe,
        *,
        resume: bool = False,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Manifest:
        """Encode and write all parts that are not finished; returns the finished manifest.

        Every shard calibrates on the first slice of the whole input; the quantiser of the first shard holds for all.
        """
        fixed = quantizer if isinstance(quantizer, Quantizer) else None
        resumed = self._parts.begin(describe, fixed, resume=resume, overwrite=overwrite)
        if resumed is not None:
            quantizer = resumed.quantizer
        with contextlib.closing(_one_ahead(self._slices(calibrate=isinstance(quantizer, Calibration)))) as work:
            encoded = map(self._work.encode, work)
            first = list(islice(encoded, 1))  # raises for an input without documents, before anything is written
            if isinstance(quantizer, Calibration):
                quantizer = self._calibrate(quantizer, first[0])
            manifest = resumed or describe(quantizer)
            if first or not (self._parts.stored and self._parts.stored.complete):
                self._parts.save_unfinished(manifest)
            items = chain(first, encoded)
            del first  # ``items`` frees the first slice once it is written
            with self._work, ThreadPoolExecutor(1) as thread:
                writing: Future[None] | None = None
                for item in items:
                    if writing is not None:
                        writing.result()  # raises its error; at most one slice waits for the disk
                    if item.slice.written:
                        writing = thread.submit(self._write, item, manifest)
                        if progress is not None:
                            finished, self._finished = self._finished, 0
                            progress(len(item.slice.documents) + finished)
                if writing is not None:
                    writing.result()
        if self._began is not None:
            self.seconds = time.perf_counter() - self._began
        if progress is not None and self._finished:
            progress(self._finished)
        return self._finish(manifest)

    def _calibrate(self, calibration: Calibration, first: Encoded) -> Quantizer:
        """Quantiser for the first slice of the whole input, the same one for all shards."""
        documents = first.slice.documents
        quantizer = calibration.find(first.weights, [document.id for document in documents])
        if self._num_shards == 1:
            return quantizer
        digest = Window(0, documents).digest
        return share_quantizer(quantizer, self._parts.folder.parent, self._encoder, calibration, digest)

    def _slices(self, *, calibrate: bool) -> Iterator[Slice]:
        """Slices of the parts of this shard that are not finished; runs in the thread that reads ahead."""
        for window in windows(self._reader, self._part_size):
            if window.number % self._num_shards != self._shard_id:
                self._other_shards += len(window.documents)
                if calibrate and window.number == 0:
                    yield self._work.first_slice(window)
            elif record := self._parts.finished(window):
                self._records[window.number] = record
                self._finished += len(window.documents)
            else:
                self._began = self._began or time.perf_counter()
                yield from self._work.slices(window)

    def _write(self, encoded: Encoded, manifest: Manifest) -> None:
        """Write a slice; runs in the thread that writes."""
        if record := self._work.write(encoded, manifest):
            self._records[encoded.slice.window.number] = record
        self.encoded += len(encoded.slice.documents)

    def _finish(self, manifest: Manifest) -> Manifest:
        reader, records = self._reader, self._records
        segments = reader if isinstance(reader, SegmentReader) else None
        counts = dataclasses.replace(
            Counts.total(record.counts for record in records.values()),
            read=reader.read + sum(reader.skipped.values()),
            skipped=dict(reader.skipped),
            other_shards=self._other_shards,
            segmented=segments.documents if segments else 0,
            largest_segments=segments.largest if segments else 0,
        )
        if reader.read - self._other_shards != counts.written:
            raise RuntimeError(f"{reader.read - self._other_shards} documents read, {counts.written} written")
        if self._encoder.uses_expanded and counts.written and not counts.expanded:
            _log.warning(
                "this model reads expanded text too, but no document has any "
                '("expanded" or "predicted_queries" in JSON lines)'
            )
        warnings = segments.warnings() if segments else ()
        manifest = dataclasses.replace(manifest, environment=dict(self._encoder.environment))
        return self._parts.finish(manifest, records, counts, warnings)


def _one_ahead(items: Iterable[T]) -> Generator[T, None, None]:
    """``items``; a background thread makes the next item while the caller uses one. Errors are raised here."""
    end: Any = object()
    iterator = iter(items)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="reader") as reader:
        coming = reader.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = reader.submit(next, iterator, end)
            yield item


def _as_reader(documents: Iterable[Document]) -> DocumentReader | SegmentReader:
    """A reader that counts ``documents`` and refuses repeated ids."""
    if isinstance(documents, DocumentReader | SegmentReader):
        return documents
    return DocumentReader.of(documents)
