"""Long documents split into segments of a maximum number of tokens, each encoded and indexed as a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from learned_sparse.collections.documents import Document, DocumentReader
from learned_sparse.core.encoder import Encoder, Word
from learned_sparse.core.errors import LearnedSparseError

Which = Literal["first", "all", "sum", "decay"]
"""Segments that are encoded: the first or all of them, each a document of its own; or all of them, added up to the
vector of their document (HDCT; Dai and Callan, 2020). ``decay``: the one at position i, from 1, counts 1/i."""
SPECIAL_TOKENS = 2
"""``[CLS]`` and ``[SEP]``, which the encoder adds to each segment."""
_CHUNK_SIZE = 256  # documents in one call of the tokenizer


@dataclass(frozen=True, kw_only=True)
class Segmentation:
    """How documents are split; segment ``i`` of document ``D`` has the id ``D#i``, where ``#`` is the delimiter.

    The id of the document ends at the last delimiter, so it may hold delimiters itself.
    """

    length: int
    """Maximum number of tokens in a segment, without special tokens."""
    which: Which = "all"
    overlap: int = 0
    """Maximum number of tokens that a segment repeats from the end of the one before."""
    delimiter: str = "#"

    def __post_init__(self) -> None:
        if self.length < 1:
            raise LearnedSparseError(f"--segment-length {self.length}: give at least 1")
        if not 0 <= self.overlap < self.length:
            raise LearnedSparseError(f"--segment-overlap {self.overlap}: give 0 to {self.length - 1}")

    @property
    def adds_up(self) -> bool:
        """Whether the segments of a document become one vector."""
        return self.which in ("sum", "decay")

    def factor(self, number: int) -> float:
        """Factor of segment ``number``, from 0, in the vector of its document."""
        return 1 / (number + 1) if self.which == "decay" else 1.0

    @classmethod
    def recorded(cls, options: Mapping[str, Any]) -> Segmentation | None:
        """The segmentation in the ``options`` of a manifest; None for whole documents."""
        if options.get("segment_length") is None:
            return None
        return cls(
            length=options["segment_length"],
            which=options["segments"],
            overlap=options["segment_overlap"],
            delimiter=options["segment_delimiter"],
        )

    def spans(self, words: Sequence[Word]) -> list[tuple[int, int]]:
        """``(start, end)`` in characters of each segment of a text; empty for a text without words.

        Words are never split, so a segment has the same tokens as in the whole text. A word of more than ``length``
        tokens is a segment of its own.

        >>> Segmentation(length=3, overlap=1).spans([(0, 2, 2), (3, 4, 1), (5, 6, 1), (7, 9, 1)])
        [(0, 4), (3, 9)]
        """
        spans, first = [], 0
        while first < len(words):
            end = self._end(words, first)
            spans.append((words[first][0], words[end - 1][1]))
            if end == len(words) or self.which == "first":
                break
            first = self._next_first(words, end)
            while self._end(words, first) <= end:  # a long word follows: shorten the overlap so that it fits
                first += 1
        return spans

    def _end(self, words: Sequence[Word], first: int) -> int:
        """One past the last word that fits into a segment from word ``first``; at least ``first + 1``."""
        end, tokens = first + 1, words[first][2]
        while end < len(words) and tokens + words[end][2] <= self.length:
            tokens += words[end][2]
            end += 1
        return end

    def _next_first(self, words: Sequence[Word], end: int) -> int:
        """The first of the words before ``end`` that together have at most ``overlap`` tokens."""
        first, tokens = end, 0
        while first > 0 and tokens + words[first - 1][2] <= self.overlap:
            first -= 1
            tokens += words[first][2]
        return first


class SegmentReader(DocumentReader):
    """The segments of a reader's documents, in order; each segment has the whole expanded text of its document."""

    def __init__(self, reader: DocumentReader, segmentation: Segmentation, encoder: Encoder) -> None:
        super().__init__((), source=reader.source)
        self.skipped = reader.skipped
        self._whole, self._segmentation, self._encoder = reader, segmentation, encoder

    def __iter__(self) -> Iterator[Document]:
        """Yield the segments of all documents."""
        whole, delimiter = iter(self._whole), self._segmentation.delimiter
        while documents := list(islice(whole, _CHUNK_SIZE)):
            for segments in cut(documents, self._segmentation, self._encoder):
                self.segmented += 1
                self.largest_segments = max(self.largest_segments, len(segments))
                for number, segment in enumerate(segments):
                    self.read += 1
                    yield replace(segment, id=f"{segment.id}{delimiter}{number}")


def cut(documents: Sequence[Document], segmentation: Segmentation, encoder: Encoder) -> Iterator[list[Document]]:
    """The segments of each of ``documents``, by the words of the encoder's tokenizer; they have the document's id."""
    _check(documents, segmentation, encoder)
    words_of_documents = encoder.word_spans([document.text for document in documents])
    for document, words in zip(documents, words_of_documents, strict=True):
        spans = segmentation.spans(words) or [(0, len(document.text))]
        yield [replace(document, text=document.text[start:end]) for start, end in spans]


def _check(documents: Iterable[Document], segmentation: Segmentation, encoder: Encoder) -> None:
    """Raise if a segment may be longer than what ``encoder`` reads, or is cut to make room for an expansion.

    Of a segment and its expansion the longer part is cut first, so a segment of half the input is never cut.
    """
    max_length, length = encoder.description.get("max_length"), segmentation.length
    if not isinstance(max_length, int):
        return
    if length + SPECIAL_TOKENS > max_length:
        raise LearnedSparseError(
            f"--segment-length {length}: the encoder reads {max_length} tokens, of which {SPECIAL_TOKENS} are special "
            f"tokens; give at most {max_length - SPECIAL_TOKENS}, or a larger --max-length"
        )
    longest = (max_length - SPECIAL_TOKENS - 1) // 2  # one more [SEP]
    expanded = next((each.id for each in documents if each.expanded), None) if encoder.uses_expanded else None
    if length > longest and expanded is not None:
        raise LearnedSparseError(
            f"--segment-length {length}: document {expanded!r} has expanded text, which each of its segments is read "
            f"with, in {max_length} tokens; give at most {longest}, or a larger --max-length"
        )
