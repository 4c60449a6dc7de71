"""What is known of a collection, and which of its files are here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from learned_sparse.collections.catalogue_cache import cached
from learned_sparse.collections.catalogue_files import Download, downloads
from learned_sparse.collections.collection import Collection
from learned_sparse.collections.descriptions import Source
from learned_sparse.collections.made import Made, made
from learned_sparse.collections.named_in_catalogue import CATALOGUE
from learned_sparse.collections.sources import candidates


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where documents, topics or judgements are, or could come from."""

    here: str | None
    """The file that is read; None where there is none."""
    bytes: int | None
    """Of that file; None for a folder of files."""
    files: tuple[str, ...]
    """Where files are looked for, each also with ``.gz``."""
    embedded: bool
    """Made on the spot."""
    ir_datasets: str | None
    cached: bool
    """Whether ir_datasets has files of that name, whole or in part."""
    registered: str | None
    """The name in Pyserini."""


@dataclass(frozen=True, kw_only=True)
class KnownSplit:
    """One split: what its description says, and where it is."""

    queries: int | None
    judgements: int | None
    measures: tuple[str, ...]
    topics: Place
    qrels: Place


@dataclass(frozen=True, kw_only=True)
class Known:
    """One collection: what its description says, where it is, and what was made of it."""

    collection: str
    """As ``--collection`` takes it."""
    name: str
    """As it is filed."""
    title: str
    documents: int | None
    corpus: Place
    splits: Mapping[str, KnownSplit]
    license: str | None
    citation: str | None
    url: str | None
    notes: str | None
    made: tuple[Made, ...]
    downloads: tuple[Download, ...]
    """What ir_datasets fetches, for a name of its catalogue."""

    @property
    def places(self) -> dict[str, Place]:
        """All of them by what they hold."""
        of_splits = (
            (f"{what} of {name}", place)
            for name, split in self.splits.items()
            for what, place in (("topics", split.topics), ("judgements", split.qrels))
        )
        return {"documents": self.corpus, **dict(of_splits)}

    @property
    def measures(self) -> list[str]:
        """Those of all splits, each once."""
        return list(dict.fromkeys(measure for split in self.splits.values() for measure in split.measures))


def known(spelling: str, collection: Collection) -> Known:
    """Look for the files of ``collection``; nothing is read, made or fetched."""
    description, root = collection.description, collection.root
    splits = {
        name: KnownSplit(
            queries=split.queries,
            judgements=split.judgements,
            measures=split.measures,
            topics=_place(split.topics, root),
            qrels=_place(split.qrels, root),
        )
        for name, split in description.splits.items()
    }
    return Known(
        collection=spelling,
        name=collection.name,
        title=description.title,
        documents=description.documents,
        corpus=_place(description.corpus, root),
        splits=splits,
        license=description.license,
        citation=description.citation,
        url=description.url,
        notes=description.notes,
        made=tuple(made(collection.name)),
        downloads=tuple(downloads(spelling.removeprefix(CATALOGUE))) if spelling.startswith(CATALOGUE) else (),
    )


def _place(source: Source, root: Path) -> Place:
    here = next((path for path in candidates(source, root) if path.exists()), None)
    return Place(
        here=None if here is None else str(here),
        bytes=here.stat().st_size if here is not None and here.is_file() else None,
        files=tuple(str(root / file) for file in source.files),
        embedded=source.embedded is not None,
        ir_datasets=source.ir_datasets,
        cached=source.ir_datasets is not None and cached(source.ir_datasets),
        registered=source.registered,
    )
