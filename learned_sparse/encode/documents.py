"""Documents through an encoder into part files: read ahead, encoded, and written, all at the same time."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from learned_sparse.collections import DocumentReader, SegmentReader
from learned_sparse.core import Encoder, LearnedSparseError, LuceneTerms, Quantizer
from learned_sparse.encode.outcome import Outcome, finish
from learned_sparse.encode.parts import Describe, Note, PartFolder, Window, windows
from learned_sparse.encode.quantizers import Calibration
from learned_sparse.encode.slices import Finished, Halves, Slice, one_ahead, slice_size, slices
from learned_sparse.encode.writer import Encoded, background_writer
from learned_sparse.jsonvector import Counts, Manifest


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentPlan:
    """How a collection becomes part files."""

    folder: Path
    part_size: int
    num_shards: int = 1
    shard_id: int = 0
    workers: int = 1
    """Processes that share the parts of this shard and write into the same folder."""
    worker: int = 0
    compress: bool = False
    resume: bool = False
    overwrite: bool = False

    def in_shard(self, part: int) -> bool:
        """Whether a part belongs to this shard."""
        return part % self.num_shards == self.shard_id

    def mine(self, part: int) -> bool:
        """Whether a part is to be written by this process."""
        return self.in_shard(part) and part // self.num_shards % self.workers == self.worker


class Progress(Protocol):
    """A progress bar, as tqdm is one."""

    def update(self, n: int) -> Any:
        """``n`` more documents are done."""


class DocumentEncoding:
    """One run over a collection; ``run`` returns the finished manifest.

    Part ``p`` holds documents ``p * part_size`` and following, in the order of the input, and belongs to shard
    ``p % num_shards``: the parts of all shards together are, byte for byte, those of a run without shards.
    While a slice of documents goes through the model, the next is read and tokenised, and the one before is written.
    """

    def __init__(
        self,
        plan: DocumentPlan,
        reader: DocumentReader | SegmentReader,
        encoder: Encoder,
        quantizer: Quantizer | Calibration,
        *,
        say: Callable[[str], None],
        progress: Progress,
    ) -> None:
        """``say`` is given remarks for the user, ``progress`` is told of the documents this process is done with."""
        self._plan, self._reader, self._encoder, self._quantizer = plan, reader, encoder, quantizer
        self._say, self._progress = say, progress
        self._parts = PartFolder(plan.folder, compress=plan.compress)
        self._halves = Halves(encoder)
        self._windows = windows(reader, plan.part_size)
        self._first: Window | None = None
        self._size: int | None = None
        self._begun: Encoded | None = None  # the first slice of the first part, if it went through the model already
        self._calibrates = isinstance(quantizer, Calibration)
        self._elsewhere = 0

    def run(self, describe: Describe) -> Manifest:
        """Encode the documents; ``describe`` gives the manifest but for the outcome."""
        manifest = self.begin(describe)
        return finish(self._parts, manifest, self.encode_parts(), self._say)

    def begin(self, describe: Describe) -> Manifest:
        """Find the quantiser, and say in the folder that it is being worked on; the unfinished manifest."""
        asked = self._quantizer if isinstance(self._quantizer, Quantizer) else None
        stored = self._parts.begin(describe, asked, resume=self._plan.resume, overwrite=self._plan.overwrite)
        self._quantizer = stored.quantizer if stored is not None else self._quantizer
        self._first_window()  # an input without documents is an error before anything is written
        if isinstance(self._quantizer, Calibration):
            self._quantizer = self._calibrate(self._quantizer)
        manifest = stored or describe(self._quantizer)
        manifest = dataclasses.replace(manifest, complete=False, counts=Counts(), parts=(), warnings=())
        manifest.save(self._plan.folder)
        return manifest

    def encode_parts(self) -> Outcome:
        """Encode and write the parts of this process that are not there yet, into a folder that was begun."""
        if not isinstance(self._quantizer, Quantizer):
            raise TypeError("the quantiser must be calibrated before parts are written")
        finished: dict[int, Note] = {}
        with (
            background_writer(self._parts, LuceneTerms(self._encoder.terms)) as writer,
            contextlib.closing(one_ahead(self._items(self._slice_size()))) as items,
        ):
            for item in items:
                if isinstance(item, Finished):
                    finished[item.window.number] = item.note
                    self._progress.update(len(item.window.documents))
                else:
                    encoded = self._encode(item) if isinstance(item, Slice) else item
                    writer.add(encoded, self._quantizer)
                    self._progress.update(len(encoded.part.documents))
        return Outcome.of(
            self._reader,
            {**finished, **writer.notes},
            elsewhere=self._elsewhere,
            reads_expanded=self._halves.reads_expanded,
        )

    def _items(self, size: int) -> Iterator[Finished | Slice | Encoded]:
        """What there is to do for each part of this process; runs in the reader's thread."""
        for window in chain([self._first_window()], self._windows):
            if not self._plan.in_shard(window.number):
                self._elsewhere += len(window.documents)
            if not self._plan.mine(window.number):
                continue
            note, problem = self._parts.finished(window)
            if problem is not None:
                self._say(problem)
            if note is not None:
                yield Finished(window, note)
                continue
            done = 0
            if self._begun is not None and window.number == 0:
                done = self._begun.part.end
                yield self._begun
            self._begun = self._first = None  # no longer needed, so not to be kept
            yield from slices(window, size, self._halves.prepare, start=done)

    def _encode(self, part: Slice) -> Encoded:
        before = _left_out(self._encoder)
        weights = self._halves.encode(part.prepared)
        if len(weights) != len(part.documents):
            raise RuntimeError(f"the encoder returned {len(weights)} vectors for {len(part.documents)} texts")
        truncated, unwritable = np.subtract(_left_out(self._encoder), before).tolist()
        expanded = sum(bool(document.expanded) for document in part.documents) if self._halves.reads_expanded else 0
        return Encoded(part, weights, expanded, truncated, unwritable)

    def _calibrate(self, calibration: Calibration) -> Quantizer:
        """On the first slice of the whole input (as a rule the first part), whoever is to write it."""
        self._begun = self._encode_first(self._slice_size())
        documents = self._begun.part.documents
        quantizer = calibration.find(self._begun.weights, [document.id for document in documents])
        self._say(
            f"quantiser calibrated on the first {len(documents)} documents: "
            f"factor {quantizer.scale:.6g}, {quantizer.bits} bits"
        )
        return quantizer

    def _encode_first(self, size: int) -> Encoded:
        return self._encode(next(slices(self._first_window(), size, self._halves.prepare)))

    def _slice_size(self) -> int:
        if self._size is None:
            self._size = slice_size(self._encoder, self._probe, self._plan.part_size)
        return self._size

    def _probe(self, size: int) -> npt.NDArray[np.int64]:
        """The terms of each of the first documents, which are a slice then, unless a larger one is to be calibrated."""
        encoded = self._encode_first(size)
        if not self._calibrates:
            self._begun = encoded
        return np.diff(encoded.weights.indptr)

    def _first_window(self) -> Window:
        if self._first is None:
            self._first = next(self._windows, None)
        if self._first is None:
            raise LearnedSparseError(f"{self._reader.source}: no documents; {self._reader.summary()}")
        return self._first


def _left_out(encoder: Encoder) -> tuple[int, int]:
    """Texts cut and weights left out so far, by encoders that count them."""
    return encoder.truncated, encoder.dropped
