"""A column of a leaderboard as steps see it: a collection, one of its splits, and the files they are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from learned_sparse.collections import CATALOGUE, Collection, Source, load_collection, local_file
from learned_sparse.core import home

if TYPE_CHECKING:
    from eval.reproduce.plan import Step

_COUNTED = 2**30
"""Bytes of the largest file whose lines are counted to know how many documents there are."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """One split of one collection, or of a pool that a step makes of it."""

    collection: str
    """As ``--collection`` takes it."""
    name: str
    """As folders are called."""
    split: str
    measures: tuple[str, ...] = ()
    needs: tuple[Step, ...] = ()
    corpus: tuple[Path, ...] = ()
    """Files of the documents that are there already."""
    judged: tuple[Path, ...] = ()
    """Files of topics and judgements."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What else decides what the queries and judgements are."""
    documents_of: str
    """As ``--collection`` takes it where only documents matter: parts of one name of ir_datasets have the same."""
    documents_facts: dict[str, Any] = field(default_factory=dict)
    """What else decides what the documents are."""
    documents: int | None = None
    queries: int | None = None


def target(collection: str, split: str, measures: tuple[str, ...] = ()) -> Target:
    """The split of a collection; files that are not there are named, and looked for when a step wants them."""
    found = load_collection(collection)
    described = found.split(split)
    corpus = _file(found.description.corpus, found)
    whole = found.description.corpus.ir_datasets
    return Target(
        collection=collection,
        documents_of=f"{CATALOGUE}{whole}" if collection.startswith(CATALOGUE) else collection,
        documents_facts=_fetched(found, found.description.corpus),
        name=found.name,
        split=split,
        measures=measures or tuple(described.measures),
        corpus=corpus,
        judged=(*_file(described.topics, found), *_file(described.qrels, found)),
        facts={**_fetched(found, described.topics, described.qrels), "remove_query": described.remove_query},
        documents=found.description.documents or _lines(corpus),
        queries=described.queries or (len(found.qrels(split)) if _file(described.qrels, found) else None),
    )


def files_of(collection: str, split: str | None) -> tuple[Path, ...]:
    """The files of the documents, and of a split, as far as they are there."""
    found = load_collection(collection)
    parts = [found.split(split).topics, found.split(split).qrels] if split else []
    return tuple(file for part in (found.description.corpus, *parts) for file in _file(part, found))


def pool_target(whole: Target, depth: int, made_by: Step) -> Target:
    """The pool that ``made_by`` cuts out of ``whole``; it is in BEIR's layout, below the home folder."""
    folder = pool_folder(whole, depth)
    return Target(
        collection=str(folder),
        documents_of=str(folder),
        name=folder.name,
        split=whole.split,
        measures=whole.measures,
        needs=(made_by,),
        documents=None if whole.queries is None else whole.queries * depth,  # about: some are found twice
        queries=whole.queries,
    )


def pool_folder(whole: Target, depth: int) -> Path:
    """Where ``eval.reproduce.pools`` writes."""
    return home() / "data" / f"{whole.name}-{whole.split}-pool-{depth}"


def _fetched(collection: Collection, *parts: Source) -> dict[str, Any]:
    missing = [part for part in parts if not _file(part, collection)]
    return {"fetched": [part.ir_datasets or part.registered or list(part.files) for part in missing]} if missing else {}


def _file(source: Source, collection: Collection) -> tuple[Path, ...]:
    found = local_file(source, collection.root)
    return () if found is None else (found,)


def _lines(corpus: tuple[Path, ...]) -> int | None:
    if not corpus or not corpus[0].is_file() or corpus[0].suffix == ".gz" or corpus[0].stat().st_size > _COUNTED:
        return None
    with corpus[0].open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(2**20), b""))
