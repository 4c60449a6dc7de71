"""Encode a collection with several workers, each of which reads, encodes and writes whole parts."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from learned_sparse.collections import (
    DocumentReader,
    Expansions,
    InputParts,
    LineRange,
    Segmentation,
    SegmentReader,
    input_parts,
    read_part,
    segments_for,
    write_seek_index,
)
from learned_sparse.core import (
    Document,
    LearnedSparseError,
    Quantizer,
    new_file,
    parse,
    read_record,
    sha256,
    write_record,
)
from learned_sparse.distribute import Engine, Workers
from learned_sparse.encode.documents import Progress
from learned_sparse.encode.parts import PartFolder, PartRecord, Window
from learned_sparse.encode.quantizers import Calibration
from learned_sparse.encode.run import Side, Source, load_side
from learned_sparse.encode.slices import PartEncoder, slice_size
from learned_sparse.jsonvector import Counts, Manifest, differences

INPUT = "input.json"
"""Where each part begins in the input (``InputParts``), in the folder ``progress`` of the output."""
DEPTH = 2
"""Parts that a worker has at a time: it reads and writes one while it encodes the other."""
Chunk = tuple[LineRange, ...]
"""Where a number of documents are in the input files."""
SeekIndexes = Mapping[int, Path]
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartInput:
    """The documents of one part, or the documents whose segments it holds."""

    chunks: tuple[tuple[Chunk, int, int | None], ...]
    """Chunks of documents, and of each the first document and one past the last."""
    skip: int = 0
    """Segments of the first document that belong to the part before."""
    size: int | None = None
    """Number of segments; None for documents."""


@dataclass(frozen=True)
class Layout:
    """All parts of a run."""

    parts: list[PartInput]
    texts: int
    """Number of documents, or of segments."""
    segmented: int = 0
    """Number of documents that are cut into segments."""
    largest: int = 0
    """Maximum number of segments of a document."""
    warnings: tuple[str, ...] = ()


class PartWorker:
    """Encodes single parts in a process of its own."""

    def __init__(
        self, options: Namespace, checkpoint: str, source: Source, expanded: Path | None, load: Callable[..., Side]
    ) -> None:
        """Load the encoder with ``load`` (``load_side``); ``expanded``: file of predicted queries."""
        self._side = load(options, checkpoint, source)
        self._files, self._expansions = source.files, None if expanded is None else Expansions(expanded)
        self._parts = PartFolder(source.output, compress=options.gzip, wait=True)
        self._segmentation = Segmentation.recorded(vars(options))
        self._adding_up = self._segmentation if self._segmentation and self._segmentation.adds_up else None
        self._computing, self._reading = threading.Lock(), threading.Lock()

    def describe(self) -> tuple[Manifest, Quantizer | Calibration, bool]:
        """The manifest with a quantiser of no meaning, the choice of the quantiser, whether expanded text is read."""
        return self._side.describe(Quantizer(1.0)), self._side.quantizer, self._side.encoder.uses_expanded

    def count_segments(self, chunk: Chunk, seek_indexes: SeekIndexes) -> tuple[list[int], int]:
        """Number of segments of each document, and number of documents that have the delimiter in their ids."""
        documents = self._documents(chunk, seek_indexes)
        numbers = Counter[str]()
        segments = self._segments(documents)
        for segment in segments:
            numbers[segment.id.rpartition(segments.delimiter)[0]] += 1
        return [numbers[document.id] for document in documents], segments.ids_with_delimiter

    def first_slice(self, part: PartInput, seek_indexes: SeekIndexes) -> Quantizer:
        """Encode the first slice of the first part; the quantiser is that of the run, or calibrated on the slice."""
        encoder, quantizer = self._side.encoder, self._side.quantizer
        documents = self._read(part, seek_indexes)[: slice_size(encoder)]
        with PartEncoder(self._parts, encoder, adding_up=self._adding_up) as work:
            weights = work.encode(work.first_slice(Window(0, documents))).weights
        if isinstance(quantizer, Calibration):
            return quantizer.find(weights, [document.id for document in documents])
        return quantizer

    def finished(self, number: int, part: PartInput, seek_indexes: SeekIndexes) -> PartRecord | None:
        """The record of part ``number`` if an earlier run has finished it."""
        return self._parts.finished(Window(number, self._read(part, seek_indexes)))

    def encode(self, number: int, part: PartInput, manifest: Manifest, seek_indexes: SeekIndexes) -> PartRecord:
        """Encode and write part ``number``.

        ``LearnedSparseError``: this worker would encode it otherwise than ``manifest`` says (another data type, say).
        """
        mine = self._side.describe(manifest.quantizer)
        if lines := differences(manifest.settings(), mine.settings()):
            raise LearnedSparseError(
                f"the workers would not encode alike ({'; '.join(lines)}); name the same --device and --dtype for all"
            )
        window, record = Window(number, self._read(part, seek_indexes)), None
        with PartEncoder(self._parts, self._side.encoder, adding_up=self._adding_up) as work:
            for piece in work.slices(window):
                with self._computing:
                    encoded = work.encode(piece)
                record = work.write(encoded, mine)
        if record is None:
            raise RuntimeError(f"part {number} has no documents")
        return record

    def _read(self, part: PartInput, seek_indexes: SeekIndexes) -> list[Document]:
        documents = [
            document
            for chunk, start, end in part.chunks
            for document in self._documents(chunk, seek_indexes)[start:end]
        ]
        if part.size is None:
            return documents
        return list(islice(self._segments(documents), part.skip, part.skip + part.size))

    def _segments(self, documents: list[Document]) -> SegmentReader:
        if self._segmentation is None:
            raise RuntimeError("documents are not cut into segments")
        return segments_for(self._side.encoder, DocumentReader.of(documents), self._segmentation)

    def _documents(self, chunk: Chunk, seek_indexes: SeekIndexes) -> list[Document]:
        if self._expansions is None:
            return read_part(self._files, chunk, None, seek_indexes)
        with self._reading:  # threads share the positions of the files of predicted queries
            return read_part(self._files, chunk, self._expansions, seek_indexes)


def encode_with_ray(
    options: Namespace,
    checkpoint: str,
    source: Source,
    engine: Engine,
    *,
    progress: Progress | None = None,
    load: Callable[..., Side] = load_side,
) -> Manifest:
    """Encode the documents of ``source``; the same files as those of one process. Returns the finished manifest.

    Workers load the encoder with ``load``. The output folder is locked by the caller.
    """
    reader = source.reader
    if reader is None:
        raise TypeError("queries are encoded by one process")
    sent = dataclasses.replace(source, reader=None)
    with Workers(engine, PartWorker, options, checkpoint, sent, reader.expanded, load, depth=DEPTH) as workers:
        described, choice, uses_expanded = workers.call("describe")
        folder = PartFolder(source.output, compress=options.gzip)
        manifest = folder.begin(
            lambda quantizer: dataclasses.replace(described, quantizer=quantizer),
            choice if isinstance(choice, Quantizer) else None, resume=options.resume, overwrite=options.overwrite,
        )  # fmt: skip
        table, indexes = input_of(source, reader, options.part_size)
        segmentation = Segmentation.recorded(vars(options))
        if segmentation is None or segmentation.adds_up:
            layout = Layout([PartInput(((chunk, 0, None),)) for chunk in table.parts], table.documents)
        else:
            layout = _segments_of(workers, table, indexes, segmentation)
        if manifest is None:
            quantizer = workers.call("first_slice", layout.parts[0], indexes)  # before earlier vectors are removed
            manifest = dataclasses.replace(described, quantizer=quantizer)
        records: dict[int, PartRecord] = {}
        if folder.stored is not None:
            tasks = [(number, part, indexes) for number, part in enumerate(layout.parts)]
            records = {number: record for number, record in workers.map("finished", tasks) if record is not None}
            if progress is not None:
                progress(sum(record.counts.written for record in records.values()))
        missing = [number for number in range(len(layout.parts)) if number not in records]
        if missing or not (folder.stored and folder.stored.complete):
            folder.save_unfinished(manifest)
        todo = [(number, layout.parts[number], manifest, indexes) for number in missing]
        for position, record in workers.map("encode", todo):
            records[missing[position]] = record
            if progress is not None:
                progress(record.counts.written)
    counts = dataclasses.replace(
        Counts.total(record.counts for record in records.values()),
        read=layout.texts + sum(table.skipped.values()), skipped=table.skipped,
        segmented=layout.segmented, largest_segments=layout.largest,
    )  # fmt: skip
    if counts.written != layout.texts:
        raise RuntimeError(f"{layout.texts} documents read, {counts.written} written")
    if uses_expanded and not counts.expanded:
        _log.warning("this model reads expanded text too, but no document has any")
    return folder.finish(manifest, records, counts, layout.warnings)


def _segments_of(workers: Workers, table: InputParts, indexes: SeekIndexes, segmentation: Segmentation) -> Layout:
    """The parts of the segments of all documents, which the workers count; in memory are 8 bytes for each document."""
    counted: dict[int, list[int]] = {}
    with_delimiter = 0
    for number, (counts, ids) in workers.map("count_segments", [(chunk, indexes) for chunk in table.parts]):
        counted[number] = counts
        with_delimiter += ids
    lengths = np.concatenate([np.array(counted[number], np.int64) for number in range(len(table.parts))])
    ends, size, parts = np.cumsum(lengths), table.part_size, list[PartInput]()
    for start in range(0, int(ends[-1]), size):
        count = min(size, int(ends[-1]) - start)
        first, last = np.searchsorted(ends, [start, start + count - 1], side="right").tolist()
        chunks = tuple(
            (table.parts[number], max(0, first - number * size), last + 1 - number * size)
            for number in range(first // size, last // size + 1)
        )
        parts.append(PartInput(chunks, skip=start - int(ends[first] - lengths[first]), size=count))
    return Layout(
        parts, int(ends[-1]), segmented=len(lengths), largest=int(lengths.max()),
        warnings=tuple(segmentation.warnings(with_delimiter)),
    )  # fmt: skip


def input_of(source: Source, reader: DocumentReader, part_size: int) -> tuple[InputParts, dict[int, Path]]:
    """Where the parts of the input begin, stored in the output folder; built again if the files have changed."""
    folder = source.output / "progress"
    indexes = {
        number: folder / f"input-{number}.seek" for number, file in enumerate(source.files) if file.suffix == ".gz"
    }
    with contextlib.suppress(LearnedSparseError):  # none yet, or a damaged one
        content = read_record(folder / INPUT)
        digests = content.pop("seek_indexes", None)
        table = parse(InputParts, content, str(folder / INPUT))
        if table.fits(reader, part_size) and digests == _digests(indexes):
            return table, indexes
    _log.info("reading %s once to find its parts", source.name)
    table = input_parts(reader, part_size)
    for number, path in indexes.items():
        with new_file(path) as temporary:
            write_seek_index(source.files[number], temporary)
    write_record(folder / INPUT, {**table.to_json(), "seek_indexes": _digests(indexes)})
    return table, indexes


def _digests(indexes: SeekIndexes) -> dict[str, str]:
    return {str(number): sha256(path) if path.is_file() else "" for number, path in indexes.items()}
