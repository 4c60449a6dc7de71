"""Long documents cut into segments of so many tokens, each encoded and indexed as a document of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from learned_sparse.collections.documents import DocumentReader
from learned_sparse.core import Document, Encoder, LearnedSparseError, Word

WordsOf = Callable[[Sequence[str]], list[list[Word]]]
Which = Literal["first", "all"]
SPECIAL_TOKENS = 2
"""``[CLS]`` and ``[SEP]``, which the encoder puts around each segment."""
_TOGETHER = 256  # documents in one call of the tokenizer


@dataclass(frozen=True, kw_only=True)
class Segmentation:
    """How documents are cut; segment ``i`` of ``D`` has the id ``D#i``, with ``delimiter`` between."""

    length: int
    """The most tokens of a segment, special ones not counted."""
    which: Which = "all"
    overlap: int = 0
    """The most tokens at the end of a segment that the next one begins with."""
    delimiter: str = "#"

    def __post_init__(self) -> None:
        if self.length < 1:
            raise LearnedSparseError(f"--segment-length {self.length}: give at least 1")
        if not 0 <= self.overlap < self.length:
            raise LearnedSparseError(f"--segment-overlap {self.overlap}: give 0 to {self.length - 1}")
        if self.delimiter.split() != [self.delimiter]:
            raise LearnedSparseError(f"--segment-delimiter {self.delimiter!r}: give a sign without white space")

    @classmethod
    def recorded(cls, options: Mapping[str, Any]) -> Segmentation | None:
        """What the ``options`` of a manifest say; None for whole documents."""
        if options.get("segment_length") is None:
            return None
        return cls(
            length=options["segment_length"],
            which=options["segments"],
            overlap=options["segment_overlap"],
            delimiter=options["segment_delimiter"],
        )

    def spans(self, words: Sequence[Word]) -> list[tuple[int, int]]:
        """``(start, end)`` in characters of each segment of a text with ``words``; none for a text without words.

        No word is cut: the tokens of a segment are those the whole text has there. A word of more than ``length``
        tokens is a segment by itself.

        >>> Segmentation(length=3, overlap=1).spans([(0, 2, 2), (3, 4, 1), (5, 6, 1), (7, 9, 1)])
        [(0, 4), (3, 9)]
        """
        spans, first = [], 0
        while first < len(words):
            after = _reach(words, first, self.length)
            spans.append((words[first][0], words[after - 1][1]))
            if after == len(words) or self.which == "first":
                break
            first = _back(words, after, self.overlap)
            while _reach(words, first, self.length) <= after:  # a long word follows: less of an overlap, or none
                first += 1
        return spans


def _reach(words: Sequence[Word], first: int, length: int) -> int:
    """The place after the last word that fits, at least ``first + 1``."""
    after, tokens = first + 1, words[first][2]
    while after < len(words) and tokens + words[after][2] <= length:
        tokens += words[after][2]
        after += 1
    return after


def _back(words: Sequence[Word], after: int, overlap: int) -> int:
    """The first of the words before ``after`` that together have ``overlap`` tokens or fewer."""
    first, tokens = after, 0
    while first > 0 and tokens + words[first - 1][2] <= overlap:
        first -= 1
        tokens += words[first][2]
    return first


class SegmentReader(Iterator[Document]):
    """The segments of a reader's documents, in order. Each has all the text that expands its document."""

    def __init__(self, reader: DocumentReader, segmentation: Segmentation, words: WordsOf) -> None:
        """``words`` finds the words of texts as the encoder reads them."""
        self.source, self.skipped, self.summary = reader.source, reader.skipped, reader.summary
        self.documents = 0
        """Documents cut so far."""
        self.read = 0
        """Segments handed out so far."""
        self.most = 0
        """Segments of one document, so far."""
        self._segmentation = segmentation
        self._segments = self._cut(reader, words)

    def __next__(self) -> Document:
        segment = next(self._segments)
        self.read += 1
        return segment

    def _cut(self, reader: DocumentReader, words: WordsOf) -> Iterator[Document]:
        while documents := list(islice(reader, _TOGETHER)):
            found = words([document.text for document in documents])
            for document, its_words in zip(documents, found, strict=True):
                spans = self._segmentation.spans(its_words) or [(0, len(document.text))]
                self.documents += 1
                self.most = max(self.most, len(spans))
                yield from self._named(document, spans)

    def _named(self, document: Document, spans: Sequence[tuple[int, int]]) -> Iterator[Document]:
        sign = self._segmentation.delimiter
        if sign in document.id:
            raise LearnedSparseError(
                f"document {document.id!r}: its id holds {sign!r}, which parts a document from the number of its "
                "segment; choose another sign with --segment-delimiter"
            )
        for number, (start, end) in enumerate(spans):
            yield Document(f"{document.id}{sign}{number}", document.text[start:end], document.expanded)


def segments_for(encoder: Encoder, reader: DocumentReader, segmentation: Segmentation) -> SegmentReader:
    """The segments of ``reader``'s documents by the tokenizer of ``encoder``."""
    longest = encoder.description.get("max_length")
    if isinstance(longest, int) and segmentation.length + SPECIAL_TOKENS > longest:
        raise LearnedSparseError(
            f"--segment-length {segmentation.length}: the encoder reads {longest} tokens, {SPECIAL_TOKENS} of them its "
            f"own; give at most {longest - SPECIAL_TOKENS}, or a larger --max-length"
        )
    return SegmentReader(reader, segmentation, encoder.word_spans)
