"""Index vector files as tasks of a Ray cluster, one Lucene index for each, and merge the indexes."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from learned_sparse.core.files import new_folder
from learned_sparse.index.build import MAX_THREADS, DirectCounts, index_directly
from learned_sparse.index.vectors import VectorFiles
from learned_sparse.lucene.writer import merge_indexes
from learned_sparse.ray import Engine, Tasks


def index_shards(
    engine: Engine, vectors: VectorFiles, folder: Path, *, threads: int | None = None, heap: str | None = None
) -> DirectCounts:
    """Index ``vectors`` into ``folder``, whose file system all nodes share; returns what was read.

    ``threads`` of each task default to its processors.
    """
    impact, shards = vectors.scoring == "impact", folder / "shards"
    with Tasks(engine) as tasks:
        threads = threads or min(int(tasks.default.cpus), MAX_THREADS)
        size = -(-len(vectors.files) // tasks.workers)  # files of one encoding have equally many documents
        groups = [vectors.files[start : start + size] for start in range(0, len(vectors.files), size)]
        targets = [shards / str(number) for number in range(len(groups))]
        arguments = [(files, target, impact, threads, heap) for files, target in zip(groups, targets, strict=True)]
        counts = DirectCounts(*map(sum, zip(*tasks.map(_index_group, arguments, folder.name), strict=True)))
        tasks.call(partial(merge_indexes, impact=impact, heap=heap), targets, folder)
    shutil.rmtree(shards)
    return counts


def _index_group(files: Sequence[Path], target: Path, impact: bool, threads: int, heap: str | None) -> DirectCounts:
    with new_folder(target, wait=True) as new:
        return index_directly(files, new, impact=impact, threads=threads, heap=heap)
