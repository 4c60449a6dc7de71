"""What the server shows: indexes with their encoders, and the documents and judged queries of their collection."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from learned_sparse.collections.collection import Collection
from learned_sparse.collections.documents import Document
from learned_sparse.core.encoder import Encoder, Side
from learned_sparse.core.errors import LearnedSparseError, did_you_mean
from learned_sparse.inspect.inspection import IndexInspector, encoder_cache
from learned_sparse.lucene.jvm import java_thread
from learned_sparse.search.maxp import Hits, MaxP

Load = Callable[[Side], Encoder]
"""One side of a model; loaded at first use."""


class UnknownNameError(LearnedSparseError):
    """A system or a query that does not exist."""


def open_systems(
    indexes: Mapping[str, Path], documents: Callable[[str], Document | None] | None, device: str | None = None
) -> dict[str, IndexInspector]:
    """Indexes by name, with their encoders of queries; those of documents are loaded at first use.

    ``documents`` looks up texts by id. Indexes of one checkpoint share its encoder.
    """
    load = encoder_cache()
    systems = {
        name: IndexInspector(index, documents=documents, load=load, device=device) for name, index in indexes.items()
    }
    for system in systems.values():
        system.query_encoder()
    return systems


def timed_search(system: IndexInspector, text: str, k: int) -> tuple[Hits, float | None, float]:
    """The ``k`` best documents of a query, and the times of encoding and of searching it (ms).

    The first time is None for plain text, which Lucene analyses while it searches.
    """
    query: Any = text
    encode_ms = None
    started = time.perf_counter()
    if system.note.scoring != "bm25-text":
        query = system.query_encoder().encode(text)
        encode_ms = 1000 * (time.perf_counter() - started)
    started = time.perf_counter()
    maxp, search = MaxP.from_note(system.note), system.searcher.search_batch
    hits = (maxp.search(search, {"": query}, k, 1) if maxp else search({"": query}, k))[""]
    return hits, encode_ms, 1000 * (time.perf_counter() - started)


class Texts:
    """Documents by id in a temporary database, which takes little memory. Several threads may look them up."""

    def __init__(self, documents: Iterable[Document]) -> None:
        """Copy ``documents``; of documents with the same id, the first is kept."""
        self._lock = threading.Lock()
        # No name: a file in SQLite's temporary folder, which is gone when the process ends.
        self._database = sqlite3.connect("", check_same_thread=False)
        self._database.execute("CREATE TABLE texts (id TEXT PRIMARY KEY, text TEXT, expanded TEXT)")
        rows = ((document.id, document.text, document.expanded) for document in documents)
        try:
            self._database.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise LearnedSparseError(f"the texts do not fit ({error}); free disk space, or set SQLITE_TMPDIR") from None

    def get(self, id: str) -> Document | None:
        """The document ``id``, or None."""
        with self._lock:
            row = self._database.execute("SELECT id, text, expanded FROM texts WHERE id = ?", (id,)).fetchone()
        return Document(*row) if row else None


class Judged:
    """Queries of one split of a collection with their judgements."""

    def __init__(self, collection: Collection, split: str) -> None:
        self.collection, self.split = collection.name, split
        self.queries = {query.id: query.text for query in collection.queries(split)}
        self.qrels = collection.qrels(split)
        self.remove_query = collection.split(split).remove_query
        """Whether the document whose id is that of the query is no hit, as in BEIR."""

    def grades(self, id: str) -> Mapping[str, int]:
        """``{document id: grade}`` of the query ``id``."""
        if id not in self.queries:
            raise UnknownNameError(f"{self.collection}, {self.split}: no query {id!r}")
        return self.qrels[id]

    def relevant(self, id: str) -> list[tuple[str, int]]:
        """``(document id, grade)`` of the documents with a positive grade, highest first."""
        return sorted((pair for pair in self.grades(id).items() if pair[1] > 0), key=lambda pair: (-pair[1], pair[0]))


@dataclass(frozen=True, kw_only=True)
class Content:
    """What the server shows; without ``systems`` only encoders."""

    systems: Mapping[str, IndexInspector]
    text_of: Callable[[str], Document | None] = lambda _: None
    judged: Judged | None = None
    notes: Sequence[str] = ()
    """What is missing, and why."""
    checkpoints: Mapping[str, Load] = field(default_factory=dict)
    """Encoders without an index."""

    def encoders(self) -> dict[str, Load]:
        """The encoders of all systems and checkpoints; plain text has none."""
        systems = {name: of.encoder for name, of in self.systems.items() if of.note.scoring != "bm25-text"}
        return {**systems, **self.checkpoints}

    @contextmanager
    def system(self, name: str) -> Iterator[IndexInspector]:
        """The system ``name`` for one request, whose thread leaves Java at its end: those of a server come and go."""
        if name not in self.systems:
            raise UnknownNameError(f"no system {name!r}{did_you_mean(name, self.systems)}")
        self.systems[name].check_unchanged()
        with java_thread():
            yield self.systems[name]

    def queries(self) -> Judged:
        """The judged queries; raise if there are none."""
        if self.judged is None:
            raise UnknownNameError("there are no judged queries here; start the server with --collection and --split")
        return self.judged
