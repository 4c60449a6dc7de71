"""Documents to part files: read, tokenise, encode, quantise, write.

Three threads do it: one reads and tokenises the next slice of documents, the main thread encodes the present one, and
one quantises and writes the slice before. Read ``write_vectors``, then ``Pipeline.run``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from learned_sparse.collections.documents import Document, DocumentReader
from learned_sparse.core.encoder import Encoder, as_encoder, choose_quantizer, encode_texts
from learned_sparse.core.files import locked, sha256, write_json
from learned_sparse.core.quantize import Quantizer
from learned_sparse.core.records import SparseBatch
from learned_sparse.encode.parts import PartFolder, check_output, clear
from learned_sparse.jsonvector.manifest import Counts, Manifest, Part
from learned_sparse.jsonvector.writer import LuceneTerms, open_part, write_documents

if TYPE_CHECKING:
    from learned_sparse.collections.segments import Segmentation

PART_SIZE = 2048
"""Documents of a part file."""
SLICE_SIZE = 1024
"""Texts of one call of the encoder. Sorting 1,024 texts by length leaves 5 % padding in batches of 32, 256 leave
21 %."""
MAX_SLICE_WEIGHTS = 2**25
"""Weights of a slice if every text had every term: 256 MB. It bounds the slices of models with many terms."""
WRITE_ROWS = 128
"""Documents that are quantised and written at once, about 50 bytes for each weight."""

Progress = Callable[[int], object]
"""Function that is called with the number of documents just encoded, such as ``tqdm.update``."""

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
    progress: Progress = lambda _: None,
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
    encoder = as_encoder(encoder)
    reader = documents if isinstance(documents, DocumentReader) else DocumentReader.of(documents)
    folder = Path(folder)
    with locked(folder):
        check_output(folder, resume=resume, overwrite=overwrite)
        parts = PartFolder(
            folder, encoder, None if query_encoder is None else as_encoder(query_encoder),
            quantizer or choose_quantizer("document", encoder), overwrite=overwrite, kind="documents",
            collection=collection, model=name, checkpoint=encoder.checkpoint or name,
            options={"part_size": part_size, "gzip": compress},
        )  # fmt: skip
        return Pipeline(parts, reader, encoder).run(progress)


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Consecutive documents of one part, tokenised."""

    part: int
    file: Path
    record: Path
    """Files of the vectors and of the progress of the part."""
    whole_part: Sequence[Document]
    start: int
    """Number of the first document, in the part."""
    documents: Sequence[Document]
    prepared: Sequence[Any]
    """Results of ``Encoder.prepare``, one for each call of the encoder."""
    factors: Any
    """``scipy.sparse.csr_array`` (documents, segments) that adds up vectors of segments; None for whole documents."""


class Pipeline:
    """Encodes a collection, or one shard of it, once, as the options of the manifest say.

    Part ``p`` holds the documents from number ``p * part_size`` on, in input order, and belongs to shard
    ``p % num_shards``: the parts of all shards together have the same bytes as those of a run without shards.
    """

    def __init__(self, parts: PartFolder, reader: DocumentReader, encoder: Encoder) -> None:
        options = parts.manifest.options
        self._part_size = options["part_size"]
        self._extension = ".jsonl.gz" if options["gzip"] else ".jsonl"
        self._num_shards, self._shard_id = options.get("num_shards", 1), options.get("shard_id", 0)
        self._adding_up: Segmentation | None = None
        """How the vector of a document is the sum of those of its segments."""
        if options.get("segment_length"):
            from learned_sparse.collections.segments import Segmentation, SegmentReader

            segmentation = Segmentation.recorded(options)
            if segmentation and not segmentation.adds_up:
                reader = SegmentReader(reader, segmentation, encoder)
            else:
                self._adding_up = segmentation
        self._parts, self._reader, self._encoder = parts, reader, encoder
        self._text = attrgetter("with_expanded" if encoder.uses_expanded else "text")
        self._terms, self._size = LuceneTerms(encoder.terms), slice_size(encoder)
        self._finished: dict[int, tuple[Part, Counts]] = {}
        """The finished parts, by number."""
        self._open_file = contextlib.ExitStack()
        """Holds the part file that is being written, so that an error removes the file."""
        self._file: BinaryIO
        self._counts: list[Counts] = []
        """Counts of the part that is being written."""
        self._other_shards = 0
        self.encoded, self.seconds = 0, 0.0
        """Documents that ``run`` has encoded, and the time from reading the first of them to the end of writing."""
        self._began: float | None = None

    def run(self, progress: Progress) -> Manifest:
        """Encode and write all parts that are not finished; returns the finished manifest.

        A quantiser that is to be calibrated is calibrated on the first slice of the whole input, by every shard.
        """
        begun, slices = False, self._slices(progress)
        with ThreadPoolExecutor(1, "reader") as reader, self._open_file, ThreadPoolExecutor(1, "writer") as writer:
            writing, coming = writer.submit(lambda: None), reader.submit(next, slices, None)
            while item := coming.result():
                coming = reader.submit(next, slices, None)  # the next slice is read while this one is encoded
                weights, counts = self._encode(item)
                if not begun:
                    self._parts.begin(weights, [document.id for document in item.documents])
                    begun = True
                writing.result()  # raises its error; at most one slice waits for the disk
                if item.part % self._num_shards == self._shard_id:
                    writing = writer.submit(self._write, item, weights, counts)
                    progress(len(item.documents))
            writing.result()
        if self._began is not None:
            self.seconds = time.perf_counter() - self._began
        return self._finish()

    def _slices(self, progress: Progress) -> Iterator[Slice]:
        """Slices of the parts of this shard that are not finished; runs in the thread that reads ahead.

        If the quantiser is calibrated on documents of another shard, their slice comes first.
        """
        whole_input = iter(self._reader)
        for number in itertools.count():
            part = list(itertools.islice(whole_input, self._part_size))
            if not part:
                return
            starts, name = range(0, len(part), self._size), f"part-{number:05d}"
            file = self._parts.folder / "vectors" / f"{name}{self._extension}"
            record = self._parts.folder / "progress" / f"{name}.json"
            if number % self._num_shards != self._shard_id:
                self._other_shards += len(part)
                starts = starts[: self._parts.calibrates and number == 0]
            elif finished := self._parts.finished(file, record, part):
                self._finished[number] = finished
                progress(len(part))
                continue
            else:
                self._began = self._began or time.perf_counter()
            for start in starts:
                documents, factors = part[start : start + self._size], None
                read: Sequence[Document] = documents
                if self._adding_up is not None:
                    read, factors = _segments(documents, self._adding_up, self._encoder)
                texts = list(map(self._text, read))
                calls = range(0, len(texts), self._size)
                prepared = [self._encoder.prepare(texts[at : at + self._size]) for at in calls]
                yield Slice(
                    part=number, file=file, record=record, whole_part=part, start=start, documents=documents,
                    prepared=prepared, factors=factors,
                )  # fmt: skip

    def _encode(self, item: Slice) -> tuple[SparseBatch, Counts]:
        """Weights of the documents of a slice, and what the encoder counted."""
        encoder, texts = self._encoder, list(map(self._text, item.documents))
        weights = SparseBatch.concatenate(list(map(encoder.encode_prepared, item.prepared)))
        expected = len(texts) if item.factors is None else item.factors.shape[1]
        if len(weights) != expected:
            raise RuntimeError(f"the encoder returned {len(weights)} vectors for {expected} texts")
        if weights.terms is not encoder.terms and list(weights.terms) != list(encoder.terms):
            raise RuntimeError("the encoder returned a batch with terms other than Encoder.terms")
        if item.factors is not None:
            total = item.factors @ weights.to_scipy()
            total.sort_indices()
            indptr, indices = total.indptr.astype(np.int64), total.indices.astype(np.int32)
            weights = dataclasses.replace(weights, indptr=indptr, indices=indices, values=total.data.astype(np.float32))
        counts = Counts(
            read=len(texts),
            empty_texts=sum(not text.strip() for text in texts),
            expanded=sum(bool(document.expanded) for document in item.documents) if encoder.uses_expanded else 0,
            truncated=weights.truncated,
            unwritable=weights.dropped,
        )
        return encode_texts(encoder, texts, weights), counts

    def _write(self, item: Slice, weights: SparseBatch, counts: Counts) -> None:
        """Quantise and write a slice; the last slice of a part gives the file its name. Runs in the writer's thread."""
        parts, documents = self._parts, item.documents
        if item.start == 0:
            self._file, self._counts = self._open_file.enter_context(open_part(item.file)), []
        for start in range(0, len(documents), WRITE_ROWS):
            some = documents[start : start + WRITE_ROWS]
            ids = [document.id for document in some]
            impacts, statistics = parts.manifest.quantizer.quantize(weights.rows(start, start + len(some)), ids)
            write_documents(self._file, ids, [document.text for document in some], impacts, self._terms)
            self._counts.append(Counts.of(impacts, statistics))
        self._counts.append(counts)
        self.encoded += len(documents)
        if item.start + len(documents) == len(item.whole_part):
            self._open_file.pop_all().close()  # gives the file its name
            total, name = Counts.total(self._counts), item.file.relative_to(parts.folder).as_posix()
            part = Part(file=name, documents=total.written, sha256=sha256(item.file))
            content = {"part": dataclasses.asdict(part), "counts": dataclasses.asdict(total)}
            write_json(item.record, {**content, "fingerprint": parts.fingerprint(item.whole_part)}, record=True)
            self._finished[item.part] = part, total

    def _finish(self) -> Manifest:
        """Write the finished manifest, and remove parts of an earlier, longer input.

        A folder that was complete before, and still is, keeps its manifest.
        """
        reader, parts = self._reader, self._parts
        finished = [self._finished[number] for number in sorted(self._finished)]
        counts = dataclasses.replace(
            Counts.total(counts for _, counts in finished),
            read=reader.read + sum(reader.skipped.values()),
            skipped=dict(reader.skipped),
            other_shards=self._other_shards,
            segmented=reader.segmented,
            largest_segments=reader.largest_segments,
        )
        if reader.read - self._other_shards != counts.written:
            raise RuntimeError(f"{reader.read - self._other_shards} documents read, {counts.written} written")
        if self._encoder.uses_expanded and counts.written and not counts.expanded:
            _log.warning(
                "this model reads expanded text too, but no document has any "
                '("expanded" or "predicted_queries" in JSON lines)'
            )
        files = tuple(part for part, _ in finished)
        keep = {parts.folder / "progress" / f"part-{number:05d}.json" for number in self._finished}
        keep |= {parts.folder / part.file for part in files}
        clear(parts.folder, None if parts.overwrite else keep)  # still to be overwritten: a shard without parts
        if (stored := parts.stored) and (stored.complete, stored.parts, stored.counts) == (True, files, counts):
            return stored
        manifest = dataclasses.replace(parts.manifest, environment=dict(self._encoder.environment))
        return manifest.finish(parts.folder, files, counts)


def slice_size(encoder: Encoder) -> int:
    """Texts of one call of ``encoder``, a power of two.

    It depends on the encoder only, so that a resumed run forms the same batches.
    """
    dense = encoder.dense_terms or len(encoder.terms)
    width = max(1, min(encoder.description.get("top_k") or dense, dense))
    return min(SLICE_SIZE, 1 << max(0, (MAX_SLICE_WEIGHTS // width).bit_length() - 1))


def _segments(
    documents: Sequence[Document], segmentation: Segmentation, encoder: Encoder
) -> tuple[list[Document], Any]:
    """The segments of ``documents``, and the factors (documents, segments) that add their vectors up."""
    from scipy.sparse import csr_array

    from learned_sparse.collections.segments import cut

    segments = list(cut(documents, segmentation, encoder))
    factors = np.array([segmentation.factor(number) for each in segments for number in range(len(each))])
    ends = np.cumsum([0, *map(len, segments)])
    matrix = csr_array((factors, np.arange(len(factors)), ends), shape=(len(documents), len(factors)))
    return list(itertools.chain.from_iterable(segments)), matrix
