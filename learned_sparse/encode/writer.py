"""Weights to impacts to part files, in a background thread while the next weights are computed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from learned_sparse.core import LuceneTerms, Quantizer, SparseBatch
from learned_sparse.encode.parts import Note, PartFolder, largest_sum
from learned_sparse.encode.slices import Slice
from learned_sparse.jsonvector import Counts, PartFile

_MOST_AT_ONCE = 2**18  # weights that are quantised and spelled at once: that takes some 50 bytes each


@dataclass(frozen=True)
class Encoded:
    """The weights of a slice, and what the encoder left out of them."""

    part: Slice
    weights: SparseBatch
    expanded: int
    truncated: int
    unwritable: int


class PartWriter:
    """Writes slices in the order given; see :func:`background_writer`."""

    def __init__(
        self, parts: PartFolder, terms: LuceneTerms, thread: ThreadPoolExecutor, unfinished: contextlib.ExitStack
    ) -> None:
        """``unfinished`` holds the file that is open, so that an error removes it."""
        self.notes: dict[int, Note] = {}
        """Of the parts written so far."""
        self._parts, self._terms, self._thread, self._unfinished = parts, terms, thread, unfinished
        self._pending: Future[None] | None = None
        self._file: PartFile
        self._counts: list[Counts] = []

    def add(self, encoded: Encoded, quantizer: Quantizer) -> None:
        """Write further documents. An error of those before is raised here."""
        self.wait()  # at most one slice is being written: memory stays bounded
        self._pending = self._thread.submit(self._write, encoded, quantizer)

    def wait(self) -> None:
        """Until all is written."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def _write(self, encoded: Encoded, quantizer: Quantizer) -> None:
        part, documents = encoded.part, encoded.part.documents
        if part.start == 0:
            self._file, self._counts = (
                self._unfinished.enter_context(self._parts.open(part.window.number, self._terms)),
                [],
            )
        for start, end in _pieces(encoded.weights):
            ids, texts = [d.id for d in documents[start:end]], [d.text for d in documents[start:end]]
            impacts, statistics = quantizer.quantize(encoded.weights.rows(start, end), ids)
            self._file.add(ids, texts, impacts)
            self._counts.append(
                Counts(
                    postings=statistics.postings,
                    clipped=statistics.clipped,
                    lost_to_rounding=statistics.lost_to_rounding,
                    largest_impact=int(impacts.values.max(initial=0)),
                    largest_sum=largest_sum(impacts),
                )
            )
        self._counts.append(
            Counts(
                read=len(documents),
                expanded=encoded.expanded,
                truncated=encoded.truncated,
                unwritable=encoded.unwritable,
            )
        )
        if part.last:
            self._unfinished.pop_all().close()  # now the file has its name
            self.notes[part.window.number] = self._parts.note(
                part.window, self._file.written(), Counts.total(self._counts)
            )


@contextlib.contextmanager
def background_writer(parts: PartFolder, terms: LuceneTerms) -> Iterator[PartWriter]:
    """A writer for the time of a block; when that ends well, all is written."""
    with (
        contextlib.ExitStack() as unfinished,
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="part-writer") as thread,
    ):
        writer = PartWriter(parts, terms, thread, unfinished)
        yield writer
        writer.wait()


def _pieces(batch: SparseBatch) -> Iterator[tuple[int, int]]:
    """``(start, end)`` of runs of rows with ``_MOST_AT_ONCE`` values or fewer, or of one long row."""
    start = 0
    while start < len(batch):
        fitting = int(np.searchsorted(batch.indptr, batch.indptr[start] + _MOST_AT_ONCE, side="right")) - 1
        end = min(max(fitting, start + 1), len(batch))
        yield start, end
        start = end
