"""Encode documents into part files; reading, encoding and writing run at the same time."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from learned_sparse.collections import DocumentReader, Segmentation, SegmentReader, check_segment_length
from learned_sparse.core import (
    Document,
    Encoder,
    LuceneTerms,
    QuantizationStatistics,
    Quantizer,
    SparseBatch,
    locked,
    without_empty_texts,
)
from learned_sparse.encode.parts import Describe, PartFolder, PartRecord, Window, describe_run, windows
from learned_sparse.encode.quantizers import Calibration, choose_quantizer, share_quantizer
from learned_sparse.jsonvector import Counts, Manifest, PartFile

PART_SIZE = 2048
"""Documents of a part file."""
SLICE_SIZE = 1024
"""Documents of one call of the encoder. An encoder that sorts a slice by length pads 5 % of the tokens of batches of 32
then; with slices of 256 it pads 21 %."""
MAX_SLICE_WEIGHTS = 2**25
"""Weights of a slice if every document had every term: 256 MB. It bounds the slices of models with many terms."""
WRITE_ROWS = 128
"""Documents that are quantised and written at once, about 50 bytes for each weight."""

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
        encoder, query_encoder, kind="documents", collection=collection, model=name, checkpoint=name,
        options={"part_size": part_size, "gzip": compress},
    )  # fmt: skip
    encoding = DocumentEncoding(PartFolder(Path(folder), compress=compress), _as_reader(documents), encoder, part_size)
    choice = quantizer or choose_quantizer("document", encoder)
    with locked(folder):
        return encoding.run(choice, describe, resume=resume, overwrite=overwrite, progress=progress)


def slice_size(encoder: Encoder) -> int:
    """Documents of one call of ``encoder``, a power of two.

    The size depends on the encoder only, so that a resumed run forms the same batches.
    """
    width = max(1, min(encoder.description.get("top_k") or len(encoder.terms), len(encoder.terms)))
    return min(SLICE_SIZE, 1 << max(0, (MAX_SLICE_WEIGHTS // width).bit_length() - 1))


@dataclass(frozen=True)
class Slice:
    """Documents ``start`` to ``end - 1`` of a window, for one call of the encoder."""

    window: Window
    start: int
    end: int
    prepared: Any
    """Result of ``Encoder.prepare``, for the documents or for their segments."""
    factors: Any
    """``scipy.sparse.csr_array`` (documents, segments) that adds up the vectors of segments; None for documents."""
    written: bool
    """False for the first slice of another shard, which only calibrates the quantiser."""

    @property
    def documents(self) -> Sequence[Document]:
        """The documents, in order."""
        return self.window.documents[self.start : self.end]


@dataclass(frozen=True)
class Encoded:
    """Weights of a slice, and the counts of the encoder."""

    slice: Slice
    weights: SparseBatch
    counts: Counts


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
        if adding_up is not None:
            check_segment_length(encoder, adding_up)
        self._adding_up = adding_up
        self._parts, self._reader, self._encoder = parts, reader, encoder
        self._part_size, self._num_shards, self._shard_id = part_size, num_shards, shard_id
        self._terms = LuceneTerms(encoder.terms)
        self._other_shards = self._finished = 0
        self._records: dict[int, PartRecord] = {}
        """Records of the finished parts, by number."""
        self._open_file = contextlib.ExitStack()
        """Holds the part file that is being written, so that an error removes the file."""
        self._file: PartFile
        self._counts: list[Counts] = []
        """Counts of the part that is being written."""
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
            encoded = map(self._encode, work)
            first = list(islice(encoded, 1))  # raises for an input without documents, before anything is written
            if isinstance(quantizer, Calibration):
                quantizer = self._calibrate(quantizer, first[0])
            manifest = resumed or describe(quantizer)
            if first or not (self._parts.stored and self._parts.stored.complete):
                self._parts.save_unfinished(manifest)
            items = chain(first, encoded)
            del first  # ``items`` frees the first slice once it is written
            with self._open_file, ThreadPoolExecutor(1) as thread:
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
        size = slice_size(self._encoder)
        for window in windows(self._reader, self._part_size):
            if window.number % self._num_shards != self._shard_id:
                self._other_shards += len(window.documents)
                if calibrate and window.number == 0:
                    yield self._slice(window, 0, size, written=False)
            elif record := self._parts.finished(window):
                self._records[window.number] = record
                self._finished += len(window.documents)
            else:
                for start in range(0, len(window.documents), size):
                    yield self._slice(window, start, size, written=True)

    def _slice(self, window: Window, start: int, size: int, *, written: bool) -> Slice:
        if written and self._began is None:
            self._began = time.perf_counter()
        end = min(start + size, len(window.documents))
        documents, factors = window.documents[start:end], None
        if self._adding_up is not None:
            documents, factors = _segments(documents, self._adding_up, self._encoder)
        return Slice(window, start, end, self._encoder.prepare(self._texts(documents)), factors, written)

    def _texts(self, documents: Sequence[Document]) -> list[str]:
        """What the encoder reads of ``documents``."""
        expanded = self._encoder.uses_expanded
        return [document.with_expanded if expanded else document.text for document in documents]

    def _encode(self, item: Slice) -> Encoded:
        encoder, documents = self._encoder, item.documents
        texts = self._texts(documents)
        truncated, dropped = encoder.truncated, encoder.dropped
        weights = encoder.encode_prepared(item.prepared)
        expected = len(documents) if item.factors is None else item.factors.shape[1]
        if len(weights) != expected:
            raise RuntimeError(f"the encoder returned {len(weights)} vectors for {expected} texts")
        if weights.terms is not encoder.terms and list(weights.terms) != list(encoder.terms):
            raise RuntimeError("the encoder returned a batch with terms other than Encoder.terms")
        if item.factors is not None:
            total = item.factors @ weights.to_scipy()
            total.sort_indices()
            indices = total.indices.astype(np.int32)
            weights = SparseBatch(total.indptr.astype(np.int64), indices, total.data.astype(np.float32), weights.terms)
        counts = Counts(
            read=len(documents),
            empty_texts=sum(not text.strip() for text in texts),
            expanded=sum(bool(document.expanded) for document in documents) if encoder.uses_expanded else 0,
            truncated=encoder.truncated - truncated,
            unwritable=encoder.dropped - dropped,
        )
        return Encoded(item, without_empty_texts(weights, texts), counts)

    def _write(self, encoded: Encoded, manifest: Manifest) -> None:
        """Quantise and write a slice; the last slice of a part finishes the part. Runs in the thread that writes."""
        window, documents = encoded.slice.window, encoded.slice.documents
        if encoded.slice.start == 0:
            self._file = self._open_file.enter_context(self._parts.open(window.number))
            self._counts = []
        for start in range(0, len(documents), WRITE_ROWS):
            end = min(start + WRITE_ROWS, len(documents))
            ids, texts = [d.id for d in documents[start:end]], [d.text for d in documents[start:end]]
            impacts, statistics = manifest.quantizer.quantize(encoded.weights.rows(start, end), ids)
            self._file.add(ids, texts, impacts, self._terms)
            self._counts.append(impact_counts(impacts, statistics))
        self.encoded += len(documents)
        self._counts.append(encoded.counts)
        if encoded.slice.end == len(window.documents):
            self._open_file.pop_all().close()  # gives the file its name
            counts = Counts.total(self._counts)
            self._records[window.number] = self._parts.record(window, self._file.sha256, counts, manifest)

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
        return self._parts.finish(manifest, records, counts, warnings)


def _segments(
    documents: Sequence[Document], segmentation: Segmentation, encoder: Encoder
) -> tuple[list[Document], Any]:
    """The segments of ``documents``, and the factors (documents, segments) that add their vectors up."""
    from scipy.sparse import csr_array

    segments, factors, ends = [], [], [0]
    for document, words in zip(documents, encoder.word_spans([d.text for d in documents]), strict=True):
        for number, (start, end) in enumerate(segmentation.spans(words) or [(0, len(document.text))]):
            segments.append(Document(document.id, document.text[start:end], document.expanded))
            factors.append(segmentation.factor(number))
        ends.append(len(segments))
    shape = len(documents), len(segments)
    return segments, csr_array((np.array(factors), np.arange(len(segments)), np.array(ends)), shape=shape)


def impact_counts(impacts: SparseBatch, statistics: QuantizationStatistics) -> Counts:
    """Counts of quantised vectors."""
    lengths = np.diff(impacts.indptr)
    filled = np.flatnonzero(lengths)
    sums = np.add.reduceat(impacts.values.astype(np.int64), impacts.indptr[filled]) if len(filled) else filled
    return Counts(
        written=len(impacts),
        empty_vectors=int(np.count_nonzero(lengths == 0)),
        postings=len(impacts.values),
        clipped=statistics.clipped,
        lost_to_rounding=statistics.lost_to_rounding,
        largest_impact=int(impacts.values.max(initial=0)),
        largest_sum=int(sums.max(initial=0)),
    )


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
