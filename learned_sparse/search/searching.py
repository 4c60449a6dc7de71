"""Search many queries with one backend; in an index of segments, rank their documents (MaxP)."""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from learned_sparse.core.errors import LearnedSparseError
from learned_sparse.index.note import IndexNote

if TYPE_CHECKING:
    from learned_sparse.search.engines import VectorSearcher

Hits = Sequence[tuple[str, float]]
"""``(document id, score)``, best first, ties by id."""
BatchSearch = Callable[[Mapping[str, Any], int, int], Mapping[str, Hits]]
"""``(queries by id, k, threads)`` to the ``k`` best hits of each; a query is ``{term: impact}`` or, for text, a str."""

BACKENDS = ("lucene", "exact", "pisa", "seismic")
"""Searchers of ``--backend``; all but lucene hold vectors in memory (``engines.load_backend``)."""
SEGMENTS_PER_DOCUMENT = 10
"""Segments requested per document in the first search of an index of segments."""
CHUNK_SIZE = 256
"""Queries searched before their hits are written, so that the hits of a large run are never all in memory."""


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
        if not note.manifests or note.manifests[0].options.get("segment_length") is None:
            return None
        from learned_sparse.collections.segments import Segmentation

        recorded = Segmentation.recorded(note.manifests[0].options)
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


def add_bm25_options(add: Callable[..., Any]) -> None:
    """Add ``--k1`` and ``--b``, for ``bm25_parameters``."""
    add("--k1", type=float, metavar="X", help="BM25's k1 (default 0.9, Pyserini's)")
    add("--b", type=float, metavar="X", help="BM25's b, from 0 to 1 (default 0.4, Pyserini's)")


def bm25_parameters(options: argparse.Namespace) -> dict[str, float]:
    """The given ones of ``--k1`` and ``--b``, as ``open_searcher`` takes them."""
    given = {name: value for name in ("k1", "b") if (value := getattr(options, name)) is not None}
    if not (0 <= given.get("k1", 0) < math.inf and 0 <= given.get("b", 0) <= 1):
        raise LearnedSparseError("--k1 takes 0 or more, --b a number from 0 to 1")
    return given


def open_searcher(
    index: Path,
    scoring: str,
    *,
    heap: str | None = None,
    vectors: VectorSearcher | None = None,
    check: bool = False,
    bm25: Mapping[str, float] | None = None,
) -> contextlib.AbstractContextManager[Any]:
    """The searcher of an index with this ``scoring`` (see ``IndexNote``), or ``vectors``.

    ``heap`` is the size of Java's memory, such as ``4g``. With ``check``, the files of the index are first compared
    with their checksums. ``bm25``: ``k1`` and ``b`` in place of Pyserini's defaults. Neither Pyserini nor torch is
    imported.
    """
    if bm25 and (scoring == "impact" or vectors is not None):
        raise LearnedSparseError(f"{index}: scored by dot products; k1 and b are parameters of BM25")
    if vectors is not None:
        return contextlib.nullcontext(vectors)
    from learned_sparse.lucene.jvm import start_jvm
    from learned_sparse.lucene.searchers import Bm25Searcher, ImpactSearcher

    start_jvm(heap=heap)
    if scoring == "impact":
        return ImpactSearcher(index, check=check)
    return Bm25Searcher(index, check=check, **bm25 or {})


def search_all(
    search: BatchSearch,
    queries: Mapping[str, Any],
    k: int,
    *,
    threads: int = 1,
    chunk_size: int = CHUNK_SIZE,
    maxp: MaxP | None = None,
    remove_query: bool = False,
) -> Iterator[tuple[str, Hits]]:
    """``(query id, hits)`` of all queries, in their order.

    ``k`` counts documents where ``maxp`` is given. ``remove_query`` drops a hit that has the id of its query; as in
    Pyserini, such a query then has one hit less, unless ``maxp`` is given.
    """
    names = list(queries)
    for start in range(0, len(names), chunk_size):
        chunk = {name: queries[name] for name in names[start : start + chunk_size]}
        if maxp is None:
            hits_by_query = search(chunk, k, threads)
        else:
            hits_by_query = maxp.search(search, chunk, k + remove_query, threads)
        for name in chunk:
            hits = hits_by_query[name]
            if remove_query:
                hits = [hit for hit in hits if hit[0] != name][:k]
            yield name, hits
