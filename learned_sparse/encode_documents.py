"""Documents through an encoder into part files: a window of the input is encoded while the one before is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from learned_sparse.documents import DocumentReader
from learned_sparse.encode_parts import Describe, Note, PartFolder, Window, largest_sum, total, windows
from learned_sparse.encode_quantizer import Calibration
from learned_sparse.errors import LearnedSparseError
from learned_sparse.lucene_terms import LuceneTerms
from learned_sparse.manifest import Counts, Manifest, exactness_warning
from learned_sparse.quantize import Quantizer
from learned_sparse.records import Encoder, SparseBatch
from learned_sparse.segments import SegmentReader


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentPlan:
    """How a collection becomes part files."""

    folder: Path
    part_size: int
    num_shards: int = 1
    shard_id: int = 0
    compress: bool = False
    resume: bool = False
    overwrite: bool = False


class Progress(Protocol):
    """A progress bar, as tqdm is one."""

    def update(self, n: int) -> Any:
        """``n`` more documents are done."""


@dataclasses.dataclass(frozen=True)
class _Encoded:
    """The weights of a window, and what the encoder left out of them."""

    weights: SparseBatch
    expanded: int
    truncated: int
    unwritable: int


class DocumentEncoding:
    """One run over a collection; ``run`` returns the finished manifest.

    Part ``p`` holds documents ``p * part_size`` and following, in the order of the input, and belongs to shard
    ``p % num_shards``: the parts of all shards together are, byte for byte, those of a run without shards.
    """

    def __init__(
        self,
        plan: DocumentPlan,
        encoder: Encoder,
        quantizer: Quantizer | Calibration,
        *,
        say: Callable[[str], None],
        progress: Progress,
    ) -> None:
        """``say`` is given remarks for the user, ``progress`` is told of each part."""
        self._plan, self._encoder, self._quantizer = plan, encoder, quantizer
        self._say, self._progress = say, progress
        self._parts = PartFolder(plan.folder, compress=plan.compress)
        self._terms = LuceneTerms(encoder.terms)
        self._notes: dict[int, Note] = {}
        self._pending: Future[None] | None = None

    def run(self, reader: DocumentReader | SegmentReader, describe: Describe) -> Manifest:
        """Encode ``reader``'s documents; ``describe`` gives the manifest but for the outcome."""
        quantizer = self._quantizer if isinstance(self._quantizer, Quantizer) else None
        stored = self._parts.begin(describe, quantizer, resume=self._plan.resume, overwrite=self._plan.overwrite)
        quantizer = stored.quantizer if stored is not None else quantizer
        manifest: Manifest | None = None
        elsewhere = 0
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="part-writer") as writer:
            for window in windows(reader, self._plan.part_size):
                encoded = None
                if quantizer is None:  # only in the first window, which all shards calibrate on
                    encoded = self._encode(window)
                    quantizer = self._calibrate(window, encoded.weights)
                if manifest is None:
                    manifest = self._begin(stored or describe(quantizer))
                if window.number % self._plan.num_shards != self._plan.shard_id:
                    elsewhere += len(window.documents)
                elif not self._keep(window):
                    self._write(writer, window, encoded or self._encode(window), quantizer)
                self._progress.update(len(window.documents))
            self._wait()
        if manifest is None:
            raise LearnedSparseError(f"{reader.source}: no documents; {reader.summary()}")
        return self._end(manifest, reader, elsewhere)

    def _calibrate(self, window: Window, weights: SparseBatch) -> Quantizer:
        calibration = cast(Calibration, self._quantizer)
        quantizer = calibration.find(weights, window.ids)
        self._say(
            f"quantiser calibrated on the first {len(window.documents)} documents: "
            f"factor {quantizer.scale:.6g}, {quantizer.bits} bits"
        )
        return quantizer

    def _begin(self, base: Manifest) -> Manifest:
        """Say that the folder is being worked on, before the first part is written."""
        manifest = dataclasses.replace(base, complete=False, counts=Counts(), parts=(), warnings=())
        manifest.save(self._plan.folder)
        return manifest

    def _encode(self, window: Window) -> _Encoded:
        before = _left_out(self._encoder)
        uses = _uses_expanded(self._encoder)
        weights = self._encoder.encode([d.with_expanded if uses else d.text for d in window.documents])
        if len(weights) != len(window.documents):
            raise RuntimeError(f"the encoder returned {len(weights)} vectors for {len(window.documents)} texts")
        truncated, unwritable = np.subtract(_left_out(self._encoder), before).tolist()
        expanded = sum(bool(document.expanded) for document in window.documents) if uses else 0
        return _Encoded(weights, expanded, truncated, unwritable)

    def _keep(self, window: Window) -> bool:
        note, problem = self._parts.finished(window)
        if problem is not None:
            self._say(problem)
        if note is not None:
            self._notes[window.number] = note
        return note is not None

    def _write(self, writer: ThreadPoolExecutor, window: Window, encoded: _Encoded, quantizer: Quantizer) -> None:
        self._wait()  # at most one part is being written: memory stays bounded, and an error ends the run here
        self._pending = writer.submit(self._quantize_and_write, window, encoded, quantizer)

    def _quantize_and_write(self, window: Window, encoded: _Encoded, quantizer: Quantizer) -> None:
        impacts, statistics = quantizer.quantize(encoded.weights, window.ids)
        counts = Counts(
            read=len(window.documents),
            expanded=encoded.expanded,
            truncated=encoded.truncated,
            unwritable=encoded.unwritable,
            postings=statistics.postings,
            clipped=statistics.clipped,
            lost_to_rounding=statistics.lost_to_rounding,
            largest_impact=int(impacts.values.max(initial=0)),
            largest_sum=largest_sum(impacts),
        )
        self._notes[window.number] = self._parts.write(window, impacts, counts, self._terms)

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def _end(self, manifest: Manifest, reader: DocumentReader | SegmentReader, elsewhere: int) -> Manifest:
        self._parts.refuse_others(self._notes)
        notes = [self._notes[number] for number in sorted(self._notes)]
        written = total(note.counts for note in notes)
        counts = dataclasses.replace(
            written,
            read=reader.read + sum(reader.skipped.values()),
            skipped=dict(reader.skipped),
            other_shards=elsewhere,
            segmented=reader.documents if isinstance(reader, SegmentReader) else 0,
            largest_segments=reader.most if isinstance(reader, SegmentReader) else 0,
        )
        if reader.read != counts.written + elsewhere or counts.written != sum(note.part.documents for note in notes):
            raise RuntimeError(f"{reader.read} documents read, {counts.written} written, {elsewhere} in other shards")
        if _uses_expanded(self._encoder) and counts.written and not counts.expanded:
            self._say(
                "this model also reads text that expands a document, and no document has any "
                '("expanded" or "predicted_queries" in JSON lines)'
            )
        finished = dataclasses.replace(
            manifest,
            complete=True,
            counts=counts,
            parts=tuple(note.part for note in notes),
            warnings=tuple(_warnings(manifest, counts)),
        )
        finished.save(self._plan.folder)
        return finished


def _uses_expanded(encoder: Encoder) -> bool:
    return bool(getattr(encoder, "uses_expanded", False))


def _left_out(encoder: Encoder) -> tuple[int, int]:
    """Texts cut and weights left out so far, by encoders that count them."""
    return getattr(encoder, "truncated", 0), getattr(encoder, "dropped", 0)


def _warnings(manifest: Manifest, counts: Counts) -> Iterator[str]:
    query = manifest.query_quantizer
    if manifest.scoring == "impact" and (
        warning := exactness_warning(counts.largest_sum, 1 if query is None or query.bits is None else query.largest)
    ):
        yield warning
    if counts.written and counts.empty_vectors == counts.written:
        yield "every vector is empty: no query will find anything; is the checkpoint trained?"
