"""Documents ranked by their best segment, in an index of segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from learned_sparse.collections.segments import Segmentation
from learned_sparse.index.note import IndexNote

Hits = Sequence[tuple[str, float]]
"""``(document id, score)``, best first, ties by id."""
BatchSearch = Callable[[Mapping[str, Any], int, int], Mapping[str, Hits]]
"""``(queries by id, k, threads)`` to the ``k`` best hits of each; a query is ``{term: impact}`` or, for text, a str."""

SEGMENTS_PER_DOCUMENT = 10
"""Segments requested per document in the first search of an index of segments."""


@dataclass(frozen=True)
class MaxP:
    """Documents ranked by their best segment, in an index of segments ``D#0``, ``D#1``, ... of documents ``D``."""

    delimiter: str
    max_segments: int
    """Largest number of segments of one document."""
    total: int
    """Segments in the index."""

    @classmethod
    def from_note(cls, note: IndexNote) -> MaxP | None:
        """Segmentation recorded in the note of an index; None for an index of whole documents or of sums."""
        recorded = Segmentation.recorded(note.manifests[0].options) if note.manifests else None
        if recorded is None or recorded.adds_up:
            return None
        max_segments = max(manifest.counts.largest_segments for manifest in note.manifests)
        return cls(recorded.delimiter, max_segments, sum(manifest.counts.written for manifest in note.manifests))

    def first_depth(self, k: int) -> int:
        """Segments to request at first for ``k`` documents."""
        return min(self.full_depth(k), SEGMENTS_PER_DOCUMENT * k)

    def full_depth(self, k: int) -> int:
        """Smallest number of segments that always holds ``k`` documents, or all segments if those are fewer.

        >>> MaxP("#", max_segments=3, total=1_000).full_depth(10)
        28
        """
        return max(1, min(self.total, (k - 1) * self.max_segments + 1))

    def search(self, search: BatchSearch, queries: Mapping[str, Any], k: int, threads: int) -> dict[str, Hits]:
        """The ``k`` best documents of each query.

        Queries whose first search gives fewer than ``k`` documents are searched a second time, deep enough.
        """
        depth = self.first_depth(k)
        segments = dict(search(queries, depth, threads))
        documents = {name: best_segments(hits, self.delimiter) for name, hits in segments.items()}
        short = [name for name, hits in documents.items() if len(hits) < k and len(segments[name]) == depth]
        if short and depth < self.full_depth(k):
            second_hits = search({name: queries[name] for name in short}, self.full_depth(k), threads)
            documents.update({name: best_segments(hits, self.delimiter) for name, hits in second_hits.items()})
        return {name: hits[:k] for name, hits in documents.items()}


def best_segments(hits: Hits, delimiter: str) -> list[tuple[str, float]]:
    """Each document with the score of its best segment; a hit without delimiter is a document.

    >>> best_segments([("d1#2", 5.0), ("d#2#0", 4.0), ("d1#0", 3.0)], "#")
    [('d1', 5.0), ('d#2', 4.0)]
    """
    documents: dict[str, float] = {}
    for segment, score in hits:
        document, separator, _ = segment.rpartition(delimiter)
        documents.setdefault(document if separator else segment, score)
    return list(documents.items())
