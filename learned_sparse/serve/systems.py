"""The systems of the page: indexes of one collection, each with its encoders, its searcher and its explanations."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from learned_sparse.core import Document, Encoder, LearnedSparseError, Query, Side
from learned_sparse.encode import load_encoder
from learned_sparse.index import INDEX_MANIFEST
from learned_sparse.inspect import IndexInspector, Inspection, TextView
from learned_sparse.jsonvector import topic_text
from learned_sparse.search import MaxP

Hits = Sequence[tuple[str, float]]
"""``(document id, score)``, best first."""


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """The hits of one query, and how long it took."""

    hits: Hits
    encode_ms: float | None
    """Milliseconds that the query's encoding took; None for plain text, which Lucene analyses while it searches."""
    search_ms: float


class System:
    """One index. Encoder of queries and searcher are open; the encoder of documents is loaded at first use."""

    def __init__(self, name: str, index: Path, inspector: IndexInspector) -> None:
        self.name, self.index = name, index
        self._identity = _identity(index)
        self.model, self.scoring = inspector.model, inspector.note.scoring
        self.documents = inspector.searcher.documents
        self._inspector = inspector
        self._maxp = MaxP.from_note(inspector.note)
        inspector.query_encoder()

    def search(self, query: str, k: int) -> Ranking:
        """The ``k`` best documents of ``query``."""
        with java_thread():
            started = time.perf_counter()
            row = self._encode([query])[0]
            encoded = time.perf_counter()
            hits = self._search({"": row}, k, 1)[""]
            ended = time.perf_counter()
        text = self.scoring == "bm25-text"
        return Ranking(
            hits=hits,
            encode_ms=None if text else 1000 * (encoded - started),
            search_ms=1000 * (ended - encoded),
        )

    def search_all(self, queries: Sequence[Query], k: int, threads: int) -> Mapping[str, Hits]:
        """The ``k`` best documents of each query, by query id."""
        with java_thread():
            rows = self._encode([query.text for query in queries])
            return self._search({query.id: row for query, row in zip(queries, rows, strict=True)}, k, threads)

    def text(self, text: str, side: Side) -> TextView:
        """Terms and weights of any text."""
        with java_thread():
            return self._inspector.text(text, side)

    def encoder(self, side: Side) -> Encoder:
        """The encoder of one side of the model."""
        return self._inspector.encoder(side)

    def explain(self, query: str, document: str) -> Inspection:
        """The score of a document for a query, term by term."""
        with java_thread():
            return self._inspector.pair(Query("", query), document, {})

    def check_unchanged(self) -> None:
        """Raise if the folder holds another index by now; the open one would still be searched."""
        if _identity(self.index) != self._identity:
            raise LearnedSparseError(f"{self.index}: changed since the server was started; start it again")

    def close(self) -> None:
        """Close the index."""
        self._inspector.searcher.close()

    def _encode(self, texts: Sequence[str]) -> Sequence[Any]:
        return texts if self.scoring == "bm25-text" else self._inspector.query_encoder().encode_batch(texts)

    def _search(self, queries: Mapping[str, Any], k: int, threads: int) -> Mapping[str, Hits]:
        if self._maxp:
            return self._maxp.search(self._search_batch, queries, k, threads)
        return self._search_batch(queries, k, threads)

    def _search_batch(self, queries: Mapping[str, Any], k: int, threads: int) -> Mapping[str, Hits]:
        searcher: Any = self._inspector.searcher
        if self.scoring == "bm25":
            queries = {name: topic_text(row) for name, row in queries.items()}
        hits: Mapping[str, Hits] = searcher.search_batch(queries, k, threads)
        return hits


def open_systems(
    indexes: Mapping[str, Path], documents: Callable[[str], Document | None] | None, **options: Any
) -> dict[str, System]:
    """Systems by name. ``documents`` looks up texts by id; ``options`` are those of ``IndexInspector``.

    Indexes of one checkpoint share its encoder.
    """
    encoders = Encoders()
    return {
        name: System(name, index, IndexInspector(index, documents=documents, load=encoders.load, **options))
        for name, index in indexes.items()
    }


class Encoders:
    """``load_encoder`` that returns the same encoder for equal arguments. Several threads may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: dict[str, Encoder] = {}

    def load(self, checkpoint: str, side: Side = "document", *, model: str | None = None, **options: Any) -> Encoder:
        """The encoder; ``model`` is its name in error messages."""
        given = {name: value for name, value in options.items() if value is not None}
        key = json.dumps([os.path.realpath(checkpoint), side, given], sort_keys=True)
        with self._lock:
            if key not in self._loaded:
                self._loaded[key] = load_encoder(checkpoint, side, model=model, **options)
            return self._loaded[key]


@contextmanager
def java_thread() -> Iterator[None]:
    """Detach the thread from the JVM afterwards: the threads of a server come and go, and Java keeps attached ones."""
    from learned_sparse.lucene import detach_thread

    try:
        yield
    finally:
        detach_thread()


def _identity(index: Path) -> tuple[int, int] | None:
    try:
        status = (index / INDEX_MANIFEST).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


class UnknownNameError(LearnedSparseError):
    """A system or a query that does not exist."""
