"""The systems of the page: indexes of one collection, each with its encoders, its searcher and its explanations."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from learned_sparse.core import Document, Encoder, LearnedSparseError, Side
from learned_sparse.encode import load_encoder
from learned_sparse.index import INDEX_MANIFEST
from learned_sparse.inspect import IndexInspector, Inspection, TextView
from learned_sparse.jsonvector import topic_text
from learned_sparse.search import MaxP


class UnknownNameError(LearnedSparseError):
    """A system or a query that does not exist."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """The hits of queries, and how long the search took."""

    hits: Mapping[str, Sequence[tuple[str, float]]]
    """``(document id, score)`` by query id, best first."""
    encode_ms: float | None
    """Milliseconds for encoding the queries; None for plain text, which Lucene analyses while it searches."""
    search_ms: float


class System:
    """One index. Encoder of queries and searcher are open; the encoder of documents is loaded at first use."""

    def __init__(self, name: str, index: Path, inspector: IndexInspector) -> None:
        self.name, self.index = name, index
        self.model, self.scoring = inspector.model, inspector.note.scoring
        self.searcher = inspector.searcher
        self.encoder = inspector.encoder
        """The encoder of one side of the model."""
        self._identity, self._inspector, self._maxp = _identity(index), inspector, MaxP.from_note(inspector.note)
        inspector.query_encoder()

    def search(self, queries: Mapping[str, str], k: int, threads: int = 1) -> Results:
        """The ``k`` best documents of each of ``{query id: text}``."""
        rows: Mapping[str, Any] = queries
        with _java_thread():
            started = time.perf_counter()
            if self.scoring != "bm25-text":
                encoded = self._inspector.query_encoder().encode_batch(list(queries.values()))
                rows = dict(zip(queries, map(topic_text, encoded) if self.scoring == "bm25" else encoded, strict=True))
            between = time.perf_counter()
            search: Any = self.searcher.search_batch
            hits = self._maxp.search(search, rows, k, threads) if self._maxp else search(rows, k, threads)
            ended = time.perf_counter()
        encode_ms = None if self.scoring == "bm25-text" else 1000 * (between - started)
        return Results(hits=hits, encode_ms=encode_ms, search_ms=1000 * (ended - between))

    def text(self, text: str, side: Side) -> TextView:
        """Terms and weights of any text."""
        with _java_thread():
            return self._inspector.text(text, side)

    def explain(self, query: str, document: str) -> Inspection:
        """The score of a document for a query, term by term."""
        with _java_thread():
            inspection = self._inspector.pair(query, document)
        return replace(inspection, index=self.name)  # the folder is not for everybody

    def check_unchanged(self) -> None:
        """Raise if the folder holds another index by now; the open one would still be searched."""
        if _identity(self.index) != self._identity:
            raise LearnedSparseError(f"{self.index}: changed since the server was started; start it again")


def open_systems(
    indexes: Mapping[str, Path], documents: Callable[[str], Document | None] | None, device: str | None = None
) -> dict[str, System]:
    """Systems by name. ``documents`` looks up texts by id. Indexes of one checkpoint share its encoder."""
    load = Encoders().load
    return {
        name: System(name, index, IndexInspector(index, documents=documents, load=load, device=device))
        for name, index in indexes.items()
    }


class Encoders:
    """``load_encoder`` that returns the same encoder for equal arguments. Several threads may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[str, Encoder] = {}

    def load(self, checkpoint: str, side: Side = "document", *, model: str | None = None, **options: Any) -> Encoder:
        """The encoder; ``model`` is its name in error messages."""
        given = sorted((name, value) for name, value in options.items() if value is not None)
        key = repr((os.path.realpath(checkpoint), side, given))
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = load_encoder(checkpoint, side, model=model, **options)
            return self._loaded[key]


@contextmanager
def _java_thread() -> Iterator[None]:
    """Detach the thread from the JVM afterwards: the threads of a server come and go, and Java keeps attached ones."""
    from learned_sparse.lucene import detach_thread

    try:
        yield
    finally:
        detach_thread()


def _identity(index: Path) -> tuple[int, int] | None:
    note = index / INDEX_MANIFEST
    return (note.stat().st_ino, note.stat().st_mtime_ns) if note.is_file() else None
