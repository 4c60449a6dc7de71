"""The steps from a recipe to a run, each the very command a person would type, left out where its result is there."""

from __future__ import annotations

import importlib
import shlex
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from learned_sparse.errors import LearnedSparseError
from learned_sparse.home import checkpoint_folder, index_folder, run_file
from learned_sparse.index_folder import INDEX_MANIFEST

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


def command(module: str, *words: str | Path) -> float:
    """Run ``python -m module words`` inside this process, shown as a person would type it; seconds it took."""
    arguments = [str(word) for word in words]
    print(f"\n$ python -m {module} {shlex.join(arguments)}", flush=True)
    started = time.perf_counter()
    status = importlib.import_module(module).main(arguments)
    if status:
        raise LearnedSparseError(f"python -m {module}: exit status {status}; see above")
    return time.perf_counter() - started


def train(model: str, recipe: str, options: Sequence[str] = ()) -> bool:
    """Train ``model``, or go on training it, unless it is finished; whether there are new weights."""
    folder = checkpoint_folder(model)
    finished = folder / "training" / "finished.json"
    before = finished.stat().st_mtime_ns if finished.exists() else None
    how = "--resume" if _same_recipe(folder, recipe, options) else "--overwrite"
    command("encoders.train", "--recipe", recipe, "--output", folder, *options, how)
    return finished.stat().st_mtime_ns != before


def encode(model: str, place: Place, *, anew: bool, options: Sequence[str] = ()) -> None:
    """Encode the documents; the command goes on with what is there, or confirms it, unless the weights are new."""
    words = ("--model", model, "--collection", place.collection, *options)
    command("learned_sparse.encode", *words, *(("--overwrite",) if anew else ()))


def encode_queries(model: str, place: Place, *, anew: bool, options: Sequence[str] = ()) -> None:
    """Encode the queries of the split."""
    words = ("--model", model, "--collection", place.collection, *options, "--queries", "--split", place.split)
    command("learned_sparse.encode", *words, *(("--overwrite",) if anew else ()))


def index(model: str, place: Place, *, anew: bool) -> None:
    """Index what was encoded (or the text, for BM25); the command itself finds that nothing is to be done."""
    there = (index_folder(place.name, model) / INDEX_MANIFEST).exists()
    if model == BM25:
        if not there:
            command("learned_sparse.index", "--bm25", "--collection", place.collection)
        return
    overwrite = ("--overwrite",) if anew and there else ()
    command("learned_sparse.index", "--model", model, "--collection", place.collection, *overwrite)


def verify(model: str, place: Place, documents: int) -> None:
    """Compare what the index holds of some documents with what was encoded."""
    where = ("--model", model, "--collection", place.collection)
    command("learned_sparse.index", *where, "--verify", str(documents))


def search(
    model: str, place: Place, hits: int = 1000, *, index_of: str | None = None, options: Sequence[str] = ()
) -> Path:
    """Search the queries of the split, in the index of another model if it is named; the run file."""
    which = ("--bm25",) if model == BM25 else ("--model", index_of or model)
    where = ("--collection", place.collection, "--split", place.split)
    run = run_file(place.name, place.split, model)
    output = ("--output", run) if index_of not in {None, model} else ()
    how = ("--hits", str(hits), "--threads", "2", "--batch-size", "64")
    command("learned_sparse.search", *which, *where, *options, *output, *how)
    return run


def bm25_run(place: Place, hits: int) -> Path:
    """BM25's run of the split, indexed and searched unless it is there; the file."""
    run = run_file(place.name, place.split, BM25)
    if not run.exists():
        index(BM25, place, anew=False)
        search(BM25, place, hits)
    return run


def _same_recipe(folder: Path, recipe: str, options: Sequence[str]) -> bool:
    """Whether the checkpoint in ``folder``, if there is one, was made by this recipe."""
    from encoders.notes import NOTES, read_notes
    from encoders.training.recipe_file import load_recipe, to_mapping

    if not (folder / NOTES).exists():
        return True  # nothing, or an unfinished run, which says itself whether it can go on
    pairs = list(zip(options[::2], options[1::2], strict=True))
    chosen = load_recipe(
        recipe,
        changes=[value for name, value in pairs if name == "--set"],
        data=[value for name, value in pairs if name == "--data"],
    )
    return bool(read_notes(folder).recipe == to_mapping(chosen))
