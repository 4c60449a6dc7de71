"""Where things are kept when the user names no place: checkpoints, vectors, indexes, runs."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from learned_sparse.core.errors import LearnedSparseError


def home() -> Path:
    """``$LEARNED_SPARSE_HOME``, else ``learned_sparse_home`` in the current folder (not created here)."""
    return Path(os.environ.get("LEARNED_SPARSE_HOME") or "learned_sparse_home")


def checkpoint_folder(model: str) -> Path:
    """The default checkpoint of a model, as ``make demo`` trains it."""
    return home() / "checkpoints" / model


def vectors_folder(collection: str, model: str) -> Path:
    """Encoded documents of a collection."""
    return home() / "vectors" / collection / model


def encoded_folders(collection: str, model: str, option: str, asked: str | None = None) -> list[Path]:
    """Where learned_sparse.encode wrote the documents of a collection: one folder, or one for each shard.

    ``option`` is how the user could name them instead; ``asked`` is what --collection said.
    """
    folder = vectors_folder(collection, model)
    if folder.is_dir():
        return [folder]
    shards = sorted(folder.parent.glob(f"{glob.escape(folder.name)}-shard-*-of-*"))
    if not shards:
        command = f"python -m learned_sparse.encode --model {model} --collection {asked or collection}"
        raise LearnedSparseError(f"{folder}: no vectors yet; run {command}, or name their folder with {option}")
    if {shard.name.rpartition("-")[2] for shard in shards} != {str(len(shards))}:
        names = ", ".join(shard.name for shard in shards)
        raise LearnedSparseError(f"{folder.parent}: not all shards of one encoding: {names}; name them with {option}")
    return shards


def queries_folder(collection: str, split: str, model: str) -> Path:
    """Encoded queries of one split of a collection."""
    return home() / "queries" / collection / split / model


def index_folder(collection: str, model: str) -> Path:
    """The Lucene index of a collection."""
    return home() / "indexes" / collection / model


def run_file(collection: str, split: str, model: str) -> Path:
    """The TREC run of one split of a collection."""
    return home() / "runs" / collection / split / f"{model}.txt"
