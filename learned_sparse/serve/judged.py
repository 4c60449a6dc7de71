"""The judged queries of a collection, and the measures of systems on them."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from learned_sparse.collections import Collection, write_run
from learned_sparse.core import LearnedSparseError, Query, did_you_mean, processors
from learned_sparse.serve.systems import Hits, System, UnknownNameError

if TYPE_CHECKING:
    from eval.measures import Scores

DEPTH = 1000
"""Hits that are measured, as in ``learned_sparse.search``."""
MAX_MEASURED = 2_000
"""Queries of a split that the page measures; the hits of all of them are in memory."""


class Judged:
    """Queries of one split with their judgements. Several threads may use it."""

    def __init__(self, collection: Collection, split: str) -> None:
        self.collection, self.split = collection.name, split
        self.queries = {query.id: query for query in collection.queries(split)}
        self.qrels = collection.qrels(split)
        self.measures: Sequence[str] = collection.split(split).measures
        self.remove_query = collection.split(split).remove_query
        self._lock = threading.Lock()
        self._all: dict[str, Scores] = {}

    def query(self, id: str) -> Query:
        """The query ``id``."""
        if id not in self.queries:
            known = [name for name in self.queries if name.startswith(id[:2])] or list(self.queries)
            raise UnknownNameError(f"{self.collection}, {self.split}: no query {id!r}{did_you_mean(id, known[:20])}")
        return self.queries[id]

    def containing(self, text: str) -> list[Query]:
        """Queries whose id or text contains ``text``, in the order of the topics."""
        text = text.casefold()
        return [
            query for query in self.queries.values() if text in query.text.casefold() or text in query.id.casefold()
        ]

    def without_query(self, id: str, hits: Hits) -> Hits:
        """``hits`` without the document that is the query itself, where the collection says so (BEIR)."""
        return [hit for hit in hits if hit[0] != id] if self.remove_query else hits

    def measure(self, system: System, id: str) -> Mapping[str, float]:
        """The measures of one query, as trec_eval computes them."""
        query = self.query(id)
        if system.name in self._all:
            return {measure: values[id] for measure, values in self._all[system.name].per_query.items()}
        return self._evaluate({id: system.search(query.text, DEPTH).hits}, [id]).mean

    def measure_all(self, system: System) -> Mapping[str, float]:
        """The means of the measures over all queries; computed once for a system."""
        if len(self.queries) > MAX_MEASURED:
            raise LearnedSparseError(
                f"{self.collection}, {self.split}: {len(self.queries):,} queries are too many for the page; "
                "measure them with learned_sparse.search and eval.evaluate"
            )
        with self._lock:
            if system.name not in self._all:
                run = system.search_all(list(self.queries.values()), DEPTH, processors())
                self._all[system.name] = self._evaluate(run, list(self.queries))
            return self._all[system.name].mean

    def _evaluate(self, run: Mapping[str, Hits], ids: Sequence[str]) -> Scores:
        from eval.measures import evaluate

        qrels = {id: self.qrels[id] for id in ids}
        with tempfile.TemporaryDirectory(prefix="learned-sparse-") as folder:
            path = Path(folder) / "run.txt"
            write_run(path, run)  # separates tied scores, which trec_eval would order by descending id
            return evaluate(path, qrels, self.measures, remove_query=self.remove_query)
