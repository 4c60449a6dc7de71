"""Search with several workers: each has a share of the shards or of the queries; the hits are those of one index."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from learned_sparse.core import LearnedSparseError
from learned_sparse.distribute import Engine, Workers
from learned_sparse.index import INDEX_MANIFEST, IndexNote
from learned_sparse.search.searching import BatchSearch, Hits, open_searcher


class SearchWorker:
    """Searches single indexes, which stay open, in a process of its own."""

    def __init__(self, index: Path, note: IndexNote, options: Mapping[str, Any]) -> None:
        """``index`` is the whole index or set, ``options`` those of ``open_searcher``."""
        self._index, self._note, self._options = index, note, options
        self._searchers: dict[Path, BatchSearch] = {}
        self._exit = contextlib.ExitStack()

    def search(self, folder: Path, queries: Mapping[str, Any], k: int, threads: int) -> Mapping[str, Hits]:
        """The hits of ``queries`` in the index or shard ``folder``."""
        if folder not in self._searchers:
            opened = open_searcher(folder, self._note.scoring, **self._options)
            self._searchers[folder] = self._exit.enter_context(opened)
            check_note(self._index, self._note)
        return self._searchers[folder](queries, k, threads)


@contextlib.contextmanager
def search_with_ray(engine: Engine, index: Path, note: IndexNote, **options: Any) -> Iterator[BatchSearch]:
    """A searcher of ``index``, whose work the workers of ``engine`` do; ``options`` are those of ``open_searcher``.

    Each shard of a set is searched by itself: dot products need no statistics of the whole, so that the best hits of
    all shards, ordered by score and then by id, are the hits of one index. BM25 needs such statistics: every worker
    opens the whole set and searches a part of the queries.
    """
    from learned_sparse.lucene import shard_folders

    folders = (shard_folders(index) if note.scoring == "impact" else []) or [index]
    with Workers(engine, SearchWorker, index, note, options) as workers:
        slices = -(-workers.count // len(folders))

        def search(queries: Mapping[str, Any], k: int, threads: int) -> dict[str, Hits]:
            chunks = [dict(islice(queries.items(), start, None, slices)) for start in range(min(slices, len(queries)))]
            tasks = [(folder, chunk, k, threads) for chunk in chunks for folder in folders]
            hits: dict[str, list[Hits]] = {name: [] for name in queries}
            for _, result in workers.map("search", tasks):
                for name, some in result.items():
                    hits[name].append(some)
            return {name: merged(lists, k) for name, lists in hits.items()}

        yield search


def merged(lists: list[Hits], k: int) -> Hits:
    """The ``k`` best of several lists of hits, each ordered by score and then by id, as one index orders them.

    >>> merged([[("d2", 3.0), ("d4", 1.0)], [("d1", 3.0), ("d3", 2.0)]], 3)
    [('d1', 3.0), ('d2', 3.0), ('d3', 2.0)]
    """
    return list(islice(heapq.merge(*lists, key=lambda hit: (-hit[1], hit[0])), k))


def check_note(index: Path, note: IndexNote) -> None:
    """Raise if the index was replaced since ``note`` was read."""
    if (index / INDEX_MANIFEST).is_file() and IndexNote.load(index) != note:
        raise LearnedSparseError(f"{index}: was replaced while the queries were encoded; run the search again")
