"""Index vector files as tasks of a Ray cluster, one Lucene index for each, and merge the indexes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from learned_sparse.core.files import new_folder
from learned_sparse.index.direct import MAX_THREADS, DirectCounts, index_directly
from learned_sparse.index.vectors import VectorFiles
from learned_sparse.lucene.writer import merge_indexes
from learned_sparse.ray import Engine, Tasks


def index_shards(
    engine: Engine,
    vectors: VectorFiles,
    folder: Path,
    *,
    term_vectors: bool = False,
    threads: int | None = None,
    heap: str | None = None,
) -> DirectCounts:
    """Index ``vectors`` into ``folder``, whose file system all nodes share; returns what was read.

    ``threads`` of each task default to its processors.
    """
    impact, shards = vectors.scoring == "impact", folder / "shards"
    with Tasks(engine) as tasks:
        threads = threads or min(int(tasks.default.cpus), MAX_THREADS)
        groups = list(_groups(vectors, tasks.workers))
        targets = [shards / str(number) for number in range(len(groups))]
        arguments = [
            (files, target, impact, term_vectors, threads, heap) for files, target in zip(groups, targets, strict=True)
        ]
        counts = DirectCounts.total(tasks.map(_index_group, arguments, folder.name))
        tasks.call(partial(merge_indexes, impact=impact, heap=heap), targets, folder)
    shutil.rmtree(shards)
    return counts


def _index_group(
    files: Sequence[Path], target: Path, impact: bool, term_vectors: bool, threads: int, heap: str | None
) -> DirectCounts:
    with new_folder(target, wait=True) as new:
        return index_directly(files, new, impact=impact, term_vectors=term_vectors, threads=threads, heap=heap)


def _groups(vectors: VectorFiles, count: int) -> Iterator[tuple[Path, ...]]:
    """The files in at most ``count`` groups of about equally many documents, in their order."""
    total, done, files, number = sum(vectors.documents), 0, list[Path](), 1
    for file, documents in zip(vectors.files, vectors.documents, strict=True):
        files.append(file)
        done += documents
        if done * count >= total * number:
            yield tuple(files)
            files, number = [], done * count // total + 1
    if files:  # without documents
        yield tuple(files)
