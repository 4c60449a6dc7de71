"""Index vector files with several workers, one Lucene index for each; merge the indexes, or keep them as a set."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from learned_sparse.core import LearnedSparseError, new_folder, progress_bar
from learned_sparse.distribute import Engine, Workers
from learned_sparse.index.direct import MAX_THREADS, DirectCounts, index_directly
from learned_sparse.index.vectors import VectorFiles
from learned_sparse.lucene import merge_indexes, read_contents, shard_folder


class ShardWorker:
    """Makes single Lucene indexes in a process of its own."""

    def __init__(self, impact: bool, store: Sequence[str], heap: str | None) -> None:
        """The options are those of ``index_directly``."""
        self._impact, self._store, self._heap = impact, store, heap

    def build(self, files: Sequence[Path], folder: Path, threads: int) -> DirectCounts:
        """Index ``files`` into ``folder``, which is there whole or not at all; returns what was read.

        ``LearnedSparseError``: the index holds other documents, postings or impacts.
        """
        with new_folder(folder, wait=True) as new:
            read = index_directly(files, new, impact=self._impact, store=self._store, threads=threads, heap=self._heap)
            contents = read_contents(new)
        indexed = DirectCounts(contents.distinct_ids, contents.postings, contents.total_impacts)
        if read != indexed:
            raise LearnedSparseError(f"{folder}: {read} in the files, {indexed} in the index; make the index again")
        return read


def index_shards(
    engine: Engine,
    vectors: VectorFiles,
    folder: Path,
    *,
    merge: bool,
    store: Sequence[str] = (),
    threads: int | None = None,
    heap: str | None = None,
) -> DirectCounts:
    """Index ``vectors`` into the folder ``folder``: as one index, or as one below it for each worker.

    ``threads`` of each worker default to its processors. A set is searched as one index is (see ``open_reader``).
    """
    with Workers(engine, ShardWorker, vectors.scoring == "impact", store, heap) as workers:
        threads = threads or min(workers.cpus, MAX_THREADS)
        groups = list(_groups(vectors, workers.count))
        targets = [shard_folder(folder, number, len(groups)) for number in range(len(groups))]
        tasks = [(files, target, threads) for files, target in zip(groups, targets, strict=True)]
        built = progress_bar(workers.map("build", tasks), folder.name, "shards", len(tasks))
        counts = sum((read for _, read in built), DirectCounts())
    for leftover in folder.glob(".shard-*"):  # of killed workers
        shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()
    if merge:
        merge_indexes(targets, folder, impact=vectors.scoring == "impact", heap=heap)
        for target in targets:
            shutil.rmtree(target)
    return counts


def _groups(vectors: VectorFiles, count: int) -> Iterator[tuple[Path, ...]]:
    """The files in at most ``count`` groups of about equally many documents, in their order."""
    total, done, files = sum(vectors.documents), 0, list[Path]()
    number = 1
    for file, documents in zip(vectors.files, vectors.documents, strict=True):
        files.append(file)
        done += documents
        if done * count >= total * number:
            yield tuple(files)
            files, number = [], done * count // total + 1
    if files:  # without documents
        yield tuple(files)
