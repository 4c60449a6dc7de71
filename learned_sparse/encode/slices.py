"""Encode one part of a collection: slices of its documents through the encoder into a part file and its record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from learned_sparse.collections import Segmentation, check_segment_length
from learned_sparse.core import (
    Document,
    Encoder,
    LuceneTerms,
    QuantizationStatistics,
    SparseBatch,
    without_empty_texts,
)
from learned_sparse.encode.parts import PartFolder, PartRecord, Window
from learned_sparse.jsonvector import Counts, Manifest, PartFile

SLICE_SIZE = 1024
"""Documents of one call of the encoder. An encoder that sorts a slice by length pads 5 % of the tokens of batches of 32
then; with slices of 256 it pads 21 %."""
MAX_SLICE_WEIGHTS = 2**25
"""Weights of a slice if every document had every term: 256 MB. It bounds the slices of models with many terms."""
WRITE_ROWS = 128
"""Documents that are quantised and written at once, about 50 bytes for each weight."""


def slice_size(encoder: Encoder) -> int:
    """Documents of one call of ``encoder``, a power of two.

    The size depends on the encoder only, so that a resumed run forms the same batches.
    """
    dense = encoder.dense_terms or len(encoder.terms)
    width = max(1, min(encoder.description.get("top_k") or dense, dense))
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


class PartEncoder:
    """Encodes parts, one at a time: ``encode`` and ``write`` may run in different threads."""

    def __init__(self, parts: PartFolder, encoder: Encoder, *, adding_up: Segmentation | None = None) -> None:
        """``adding_up``: the vector of a document is the sum of those of its segments."""
        if adding_up is not None:
            check_segment_length(encoder, adding_up)
        self._adding_up = adding_up
        self._parts, self._encoder, self._terms = parts, encoder, LuceneTerms(encoder.terms)
        self._open_file = contextlib.ExitStack()
        """Holds the part file that is being written, so that an error removes the file."""
        self._file: PartFile
        self._counts: list[Counts] = []
        """Counts of the part that is being written."""

    def __enter__(self) -> PartEncoder:
        return self

    def __exit__(self, *error: Any) -> None:
        """Close the part file; an error removes it."""
        self._open_file.__exit__(*error)

    def slices(self, window: Window) -> Iterator[Slice]:
        """The slices of a part, tokenised."""
        size = slice_size(self._encoder)
        for start in range(0, len(window.documents), size):
            yield self._slice(window, start, size)

    def first_slice(self, window: Window) -> Slice:
        """The first slice of a part, which only calibrates the quantiser."""
        return self._slice(window, 0, slice_size(self._encoder), written=False)

    def _slice(self, window: Window, start: int, size: int, *, written: bool = True) -> Slice:
        end = min(start + size, len(window.documents))
        documents, factors = window.documents[start:end], None
        if self._adding_up is not None:
            documents, factors = _segments(documents, self._adding_up, self._encoder)
        return Slice(window, start, end, self._encoder.prepare(self._texts(documents)), factors, written)

    def _texts(self, documents: Sequence[Document]) -> list[str]:
        """What the encoder reads of ``documents``."""
        expanded = self._encoder.uses_expanded
        return [document.with_expanded if expanded else document.text for document in documents]

    def encode(self, item: Slice) -> Encoded:
        """Weights of a slice."""
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

    def write(self, encoded: Encoded, manifest: Manifest) -> PartRecord | None:
        """Quantise and write a slice; the last slice of a part gives the file its name and returns the record."""
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
        self._counts.append(encoded.counts)
        if encoded.slice.end < len(window.documents):
            return None
        self._open_file.pop_all().close()  # gives the file its name
        counts = Counts.total(self._counts)
        return self._parts.record(window, self._file.sha256, counts, manifest)


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
