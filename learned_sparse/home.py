"""Where things are kept when the user names no place: checkpoints, vectors, indexes, runs."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """``$LEARNED_SPARSE_HOME``, else ``learned_sparse_home`` in the current folder (not created here)."""
    return Path(os.environ.get("LEARNED_SPARSE_HOME") or "learned_sparse_home")


def checkpoint_folder(model: str) -> Path:
    """The default checkpoint of a model, as ``make demo`` trains it."""
    return home() / "checkpoints" / model


def vectors_folder(collection: str, model: str) -> Path:
    """Encoded documents of a collection."""
    return home() / "vectors" / collection / model


def queries_folder(collection: str, split: str, model: str) -> Path:
    """Encoded queries of one split of a collection."""
    return home() / "queries" / collection / split / model


def index_folder(collection: str, model: str) -> Path:
    """The Lucene index of a collection."""
    return home() / "indexes" / collection / model


def run_file(collection: str, split: str, model: str) -> Path:
    """The TREC run of one split of a collection."""
    return home() / "runs" / collection / split / f"{model}.txt"
