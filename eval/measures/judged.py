"""The split of a collection that runs are measured against, and the runs by name."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.measures.notation import parse_measure
from learned_sparse.collections import Collection, Qrels, Run, load_collection, read_run
from learned_sparse.core import Document, LearnedSparseError


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Queries, judgements and measures; the documents are read when they are asked for."""

    collection: Collection
    split: str
    queries: dict[str, str]
    """Id → text, of the judged queries."""
    qrels: Qrels
    measures: tuple[str, ...]
    remove_query: bool
    """Ignore a result whose id is the query's own (BEIR)."""

    def documents(self, wanted: set[str]) -> dict[str, Document]:
        """The documents with the ids ``wanted``, from one pass over the collection; all of them or an error."""
        found = {}
        for document in self.collection.documents(on_bad_line="skip"):
            if document.id in wanted:
                found[document.id] = document
                if len(found) == len(wanted):
                    return found
        missing = min(wanted - found.keys())
        raise LearnedSparseError(
            f"collection {self.collection.name}: {len(wanted) - len(found)} of {len(wanted)} documents asked for are "
            f"not there or have no text (for instance {missing!r}); is it the collection of the run?"
        )


def add_judged_options(parser: argparse.ArgumentParser) -> None:
    """``--run``, ``--collection``, ``--data``, ``--split``, ``--measures``."""
    add = parser.add_argument
    add("--run", nargs="+", action="extend", required=True, metavar="[NAME=]FILE", help="TREC runs, and names for them")
    add("--collection", required=True, metavar="NAME|PATH", help="what was searched")
    add("--data", type=Path, metavar="DIR", help="folder the files of --collection are in")
    add("--split", help="whose queries; default: the only one")
    add("--measures", nargs="+", metavar="M", help="for instance MRR@10 R@1000 MAP; the default is the split's")


def load_judged(options: argparse.Namespace) -> Judged:
    """What the options of ``add_judged_options`` name."""
    collection = load_collection(options.collection, data=options.data)
    name = chosen_split(collection, options.split)
    split = collection.split(name)
    measures = tuple(options.measures or split.measures)
    for measure in measures:
        parse_measure(measure)
    return Judged(
        collection=collection,
        split=name,
        queries={query.id: query.text for query in collection.queries(name)},
        qrels=collection.qrels(name),
        measures=measures,
        remove_query=split.remove_query,
    )


def chosen_split(collection: Collection, asked: str | None) -> str:
    """``asked``, or the only split there is."""
    if asked is None and len(collection.splits) > 1:
        known = ", ".join(collection.splits)
        raise LearnedSparseError(f"collection {collection.name} has several splits; give --split one of {known}")
    return asked or next(iter(collection.splits), "test")  # without any, Collection.split says what to do


def read_runs(words: Sequence[str]) -> dict[str, Run]:
    """``{name: run}`` of ``NAME=FILE``, or of ``FILE``, which is called by its name without the ending."""
    runs: dict[str, Run] = {}
    for word in words:
        name, equals, file = word.partition("=")
        path = Path(file)
        if not equals or Path(word).is_file():  # a file's name may have a "=" of its own
            path = Path(word)
            name = path.stem
        if name in runs:
            raise LearnedSparseError(f"--run {word}: there is a run called {name} before; write NAME={path}")
        if not path.is_file():
            raise LearnedSparseError(f"--run {word}: no such run")
        runs[name] = read_run(path)
    return runs
