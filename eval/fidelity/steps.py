"""The steps from a model to a run, each the very command a person would type, left out where its result is there."""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from learned_sparse.core import LearnedSparseError, index_folder, run_file
from learned_sparse.index import INDEX_MANIFEST

BM25 = "bm25"
"""The name of the baseline among the models."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One split of one collection: what a model is measured on."""

    collection: str
    """As ``--collection`` takes it: a name, or a folder."""
    name: str
    """As the default folders are called."""
    split: str


def check_data(folder: Path, collections: Iterable[str]) -> None:
    """Raise if one of ``collections`` is not in ``folder``, in BEIR's layout."""
    for name in collections:
        corpus = folder / name / "corpus.jsonl"
        if not corpus.is_file():
            raise LearnedSparseError(f"{corpus}: no such file; give --data its folder")


def command(module: str, *words: str | Path) -> None:
    """Run ``python -m module words`` inside this process, shown as a person would type it."""
    arguments = [str(word) for word in words]
    print(f"\n$ python -m {module} {shlex.join(arguments)}", flush=True)
    status = importlib.import_module(module).main(arguments)
    if status:
        raise LearnedSparseError(f"python -m {module}: exit status {status}; see above")


def encode(model: str, place: Place, *, anew: bool, options: Sequence[str] = ()) -> None:
    """Encode the documents; the command goes on with what is there, or confirms it, unless the weights are new."""
    words = ("--model", model, "--collection", place.collection, *options)
    command("learned_sparse.encode", *words, *(("--overwrite",) if anew else ()))


def encode_queries(model: str, place: Place, *, anew: bool, options: Sequence[str] = ()) -> None:
    """Encode the queries of the split."""
    words = ("--model", model, "--collection", place.collection, *options, "--queries", "--split", place.split)
    command("learned_sparse.encode", *words, *(("--overwrite",) if anew else ()))


def bm25_run(place: Place, hits: int) -> Path:
    """BM25's run of the split, indexed and searched unless it is there; the file."""
    run = run_file(place.name, place.split, BM25)
    if not run.exists():
        which = ("--bm25", "--collection", place.collection)
        if not (index_folder(place.name, BM25) / INDEX_MANIFEST).exists():
            command("learned_sparse.index", *which)
        command("learned_sparse.search", *which, "--split", place.split, "--hits", str(hits), "--threads", "2")
    return run
